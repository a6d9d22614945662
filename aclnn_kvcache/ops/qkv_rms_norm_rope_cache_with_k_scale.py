# SPDX-License-Identifier: Apache-2.0
"""aclnnQkvRmsNormRopeCacheWithKScale, in whichever revision the library has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.native.revisions import QKV
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    Array,
    Arrays,
    Checked,
    c_arguments,
    place_of,
    require_valid,
    run_on_host_arrays,
    spec_of,
)
from aclnn_kvcache.ops.failure import Failing
from aclnn_kvcache.ops.known import exact, recall, relaunched, remember
from aclnn_kvcache.ops.plan import Plan, arguments_of_plan
from aclnn_kvcache.rules.contracts import FIRST
from aclnn_kvcache.rules.qkv_rms_norm_rope_cache_with_k_scale import CONTRACTS
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.runtime import memory
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library

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
    contract = _contract(device.library)
    made = exact(device, arguments.values(), (contract.name, contract.revision, attributes))
    if made is not None and relaunched(device, contract, stream, made):
        return arguments["q_out"], arguments["q_scale"]
    given = {name: array for name, array in arguments.items() if array is not None}
    place, checked = DEVICE, recall(made)
    if checked is None:
        place = place_of(device, given, [name for name in contract.written if name in given])
        checked = _check(device.library, contract, place, arguments, attributes)
        remember(made, checked)
    described, named = checked.described, attributes._asdict()

    def call(on_device: Mapping[str, Array], key: object = None) -> None:
        launch(device, contract.api, c_arguments(contract, on_device, named), stream, described, key)

    make = partial(memory.empty, device) if place == DEVICE else np.empty
    with Failing(device.library, contract.api, described):
        arrays = {**given, **{name: make(spec.shape, np.dtype(spec.dtype)) for name, spec in checked.made.items()}}
        if place == DEVICE:
            call(arrays, made.key if made is not None and not checked.made else None)
        else:
            on_host = cast("Mapping[str, np.ndarray]", arrays)
            written = [name for name in contract.written if name in arrays]
            run_on_host_arrays(device, on_host, written, call, stream, write_only=contract.outputs)
    return arrays["q_out"], arrays.get("q_scale")


def prepare(device: Device, stream: Stream, arguments: Arrays, attributes: Attributes) -> Plan:
    """Checks the arguments and makes a plan of the call, with outputs of its own where none are given."""
    contract = _contract(device.library)
    arguments = arguments_of_plan(device, contract, arguments)
    checked = _check(device.library, contract, DEVICE, arguments, attributes)
    made = {name: memory.empty(device, spec.shape, np.dtype(spec.dtype)) for name, spec in checked.made.items()}
    return Plan(device, stream, contract, {**arguments, **made}, attributes._asdict(), checked)


def _contract(library: Library) -> Contract:
    """That of the revision in force."""
    _, binding = library.binding(QKV)
    return CONTRACTS[binding.revision or FIRST]


def _check(library: Library, contract: Contract, place: str, arguments: Arrays, attributes: Attributes) -> Checked:
    """Raises AclnnParameterError, also for arguments that the revision does not have."""
    named = {name: value for name, value in attributes._asdict().items() if name in contract.attributes or value}
    has = (*contract.tensors, *(name for name, array in arguments.items() if array is not None))
    specs = {name: spec_of(array) for name, array in arguments.items() if name in has}
    made = {name: spec for name, spec in contract.made_outputs(specs, named).items() if arguments[name] is None}
    return require_valid(library, contract, place, {**specs, **made}, arguments, named)._replace(made=made)
