# SPDX-License-Identifier: Apache-2.0
"""aclnnQkvRmsNormRopeCacheWithKScale, in whichever revision the library has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from aclnn_kvcache.errors import PHASE_1, ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    Array,
    Arrays,
    place_of,
    require_valid,
    run_on_host_arrays,
    spec_of,
)
from aclnn_kvcache.ops.failure import Failing
from aclnn_kvcache.rules.contracts import FIRST
from aclnn_kvcache.rules.qkv_rms_norm_rope_cache_with_k_scale import API, CONTRACTS
from aclnn_kvcache.runtime import memory
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream

TEXTS = ("layout_qkv", "layout_q_out", "q_quant_mode", "k_quant_mode")
LISTS = {"head_nums": "three integers (Nq, Nk, Nv)", "mrope_section": "three integers (T, H, W)"}


class Attributes(NamedTuple):
    head_nums: tuple[int, ...] | None
    layout_qkv: str | None
    layout_q_out: str | None
    epsilon: float
    mrope_section: tuple[int, ...] | None = None
    q_quant_mode: str | None = None
    k_quant_mode: str | None = None

    @classmethod
    def of(cls, **given: object) -> Attributes:
        """Raises ArgumentError for anything of another type; values are the rules' business."""
        for name in TEXTS:
            text = given[name]
            if text is not None and not isinstance(text, str):
                raise ArgumentError(name, "a string", type(text).__name__)
        epsilon = given["epsilon"]
        if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float, np.integer, np.floating)):
            raise ArgumentError("epsilon", "a number", type(epsilon).__name__)
        try:
            value = float(epsilon)
        except OverflowError as error:
            raise ArgumentError("epsilon", "a number that a float holds", repr(epsilon)) from error
        lists = {name: _integers(name, given[name]) for name in LISTS}
        return cls(**cast("dict[str, Any]", {**given, **lists, "epsilon": value}))


def _integers(name: str, given: object) -> tuple[int, ...] | None:
    if given is None:
        return None
    values = given.tolist() if isinstance(given, np.ndarray) else given
    if (
        not isinstance(values, Sequence)
        or isinstance(values, (str, bytes))
        or not all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values)
    ):
        raise ArgumentError(name, f"a sequence of {LISTS[name]}", repr(given))
    return tuple(int(value) for value in values)


def qkv_rms_norm_rope_cache_with_k_scale(
    device: Device, stream: Stream, arguments: Arrays, attributes: Attributes
) -> tuple[Any, Any]:
    """Checks the arguments, by name as in the contract, and runs the operator. See the method of Session.

    An output that is None is allocated where the other arrays are, if the scene has it.
    """
    given = {name: array for name, array in arguments.items() if array is not None}
    _, binding = device.library.binding(API + PHASE_1)
    contract = CONTRACTS[binding.revision or FIRST]
    place = place_of(device, given, [name for name in contract.written if name in given])
    specs = {name: spec_of(arguments[name]) for name in arguments if name in contract.tensors or name in given}
    named = {name: value for name, value in attributes._asdict().items() if name in contract.attributes or value}
    made = {name: spec for name, spec in contract.made_outputs(specs, named).items() if name not in given}
    specs.update(made)
    in_force = f"revision {contract.revision} of the operator is in force, by {binding.source}"
    checked = require_valid(device.library, contract, place, specs, arguments, named, in_force)

    def call(on_device: Mapping[str, Array]) -> None:
        values = {name: value.encode() if isinstance(value, str) else value for name, value in named.items()}
        values |= on_device
        launch(device, API, [values.get(name) for name in contract.parameters], stream, checked.described)

    make = partial(memory.empty, device) if place == DEVICE else np.empty
    with Failing(device.library, API, checked.described):
        arrays = {**given, **{name: make(spec.shape, np.dtype(spec.dtype)) for name, spec in made.items()}}
        if place == DEVICE:
            call(arrays)
        else:
            on_host = cast("Mapping[str, np.ndarray]", arrays)
            written = [name for name in contract.written if name in arrays]
            run_on_host_arrays(device, on_host, written, call, stream, write_only=contract.outputs)
    return arrays["q_out"], arrays.get("q_scale")
