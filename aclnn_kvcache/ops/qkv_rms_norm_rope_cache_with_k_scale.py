# SPDX-License-Identifier: Apache-2.0
"""aclnnQkvRmsNormRopeCacheWithKScale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    Array,
    Arrays,
    c_arguments,
    dense_spec,
    place_of,
    require_valid,
    run_on_host_arrays,
    spec_of,
)
from aclnn_kvcache.ops.failure import Failing
from aclnn_kvcache.ops.known import key_of, recall, remember
from aclnn_kvcache.ops.plan import Plan, require_on_device
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.qkv_call import DTYPES, output_shapes
from aclnn_kvcache.rules.qkv_rms_norm_rope_cache_with_k_scale import CONTRACT
from aclnn_kvcache.runtime import memory
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream


class Attributes(NamedTuple):
    head_nums: tuple[int, ...] | None
    layout_qkv: str | None
    layout_q_out: str | None
    epsilon: float

    @classmethod
    def of(cls, head_nums: object, layout_qkv: object, layout_q_out: object, epsilon: object) -> Attributes:
        """Raises ArgumentError for anything of another type; values are the rules' business."""
        for name, text in (("layout_qkv", layout_qkv), ("layout_q_out", layout_q_out)):
            if text is not None and not isinstance(text, str):
                raise ArgumentError(name, "a string", type(text).__name__)
        if isinstance(epsilon, bool) or not isinstance(epsilon, (int, float, np.integer, np.floating)):
            raise ArgumentError("epsilon", "a number", type(epsilon).__name__)
        try:
            value = float(epsilon)
        except OverflowError as error:
            raise ArgumentError("epsilon", "a number that a float holds", repr(epsilon)) from error
        layouts = cast("tuple[str | None, str | None]", (layout_qkv, layout_q_out))
        return cls(_integers(head_nums), *layouts, value)


def _integers(head_nums: object) -> tuple[int, ...] | None:
    if head_nums is None:
        return None
    values = head_nums.tolist() if isinstance(head_nums, np.ndarray) else head_nums
    if (
        not isinstance(values, Sequence)
        or isinstance(values, (str, bytes))
        or not all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values)
    ):
        raise ArgumentError("head_nums", "a sequence of three integers (Nq, Nk, Nv)", repr(head_nums))
    return tuple(int(value) for value in values)


def qkv_rms_norm_rope_cache_with_k_scale(
    device: Device, stream: Stream, arguments: Arrays, attributes: Attributes
) -> tuple[Any, Any]:
    """Checks the arguments, by name as in the contract, and runs the operator. See the method of Session.

    An output that is None is allocated where the other arrays are.
    """
    given = {name: array for name, array in arguments.items() if array is not None}
    key = key_of(device, arguments.values(), (CONTRACT.name, attributes))
    place, checked = DEVICE, recall(key)
    specs = {name: spec_of(arguments[name]) for name in ("qkv", *CONTRACT.outputs)}
    named = attributes._asdict()
    made = {name: spec for name, spec in output_specs(specs["qkv"], named).items() if name not in given}
    if checked is None:
        place = place_of(device, given, [name for name in CONTRACT.written if name in given])
        specs = {name: spec_of(arguments[name]) for name in CONTRACT.tensors}
        specs.update(made)
        revision = _check_revision(device.library, attributes.head_nums or ())
        checked = require_valid(device.library, CONTRACT, place, specs, arguments, named, revision)
        remember(key, checked)

    def call(on_device: Mapping[str, Array]) -> None:
        launch(device, CONTRACT.api, c_arguments(CONTRACT, on_device, named), stream, checked.described)

    make = partial(memory.empty, device) if place == DEVICE else np.empty
    with Failing(device.library, CONTRACT.api, checked.described):
        arrays = {**given, **{name: make(spec.shape, DTYPES[name][0]) for name, spec in made.items()}}
        if place == DEVICE:
            call(arrays)
        else:
            on_host = cast("Mapping[str, np.ndarray]", arrays)
            run_on_host_arrays(device, on_host, CONTRACT.written, call, stream, write_only=CONTRACT.outputs)
    return arrays["q_out"], arrays["q_scale"]


def prepare(device: Device, stream: Stream, arguments: Arrays, attributes: Attributes) -> Plan:
    """Checks the arguments and makes a plan of the call, with outputs of its own where none are given."""
    named = attributes._asdict()
    require_on_device(device, CONTRACT, arguments)
    specs = {name: spec_of(arguments[name]) for name in CONTRACT.tensors}
    made = {name: spec for name, spec in output_specs(specs["qkv"], named).items() if arguments[name] is None}
    specs.update(made)
    revision = _check_revision(device.library, attributes.head_nums or ())
    checked = require_valid(device.library, CONTRACT, DEVICE, specs, arguments, named, revision)
    outputs = {name: memory.empty(device, spec.shape, DTYPES[name][0]) for name, spec in made.items()}
    return Plan(device, stream, CONTRACT, {**cast("Mapping[str, Array]", arguments), **outputs}, named, checked)


def output_specs(qkv: TensorSpec | None, attributes: Mapping[str, Any]) -> dict[str, TensorSpec]:
    """The outputs as they are made where none are given."""
    return {name: dense_spec(shape, DTYPES[name][0]) for name, shape in output_shapes(qkv, attributes).items()}


def _check_revision(library: Library, head_nums: Sequence[int]) -> Iterator[Finding]:
    """Revisions B and C, told by their quantisation modes, take fewer combinations of heads than A."""
    _, binding = library.binding(f"{CONTRACT.api}GetWorkspaceSize")
    if not any(parameter.name == "qQuantMode" for parameter in binding.prototype.parameters):
        return
    q_heads, k_heads, _ = head_nums
    if q_heads > 64 or q_heads != 8 * k_heads:
        message = (
            f"head_nums must be (8 * Nk, Nk, Nk) with at most 64 Q heads, got {list(head_nums)}: the installed "
            f"operator is of revision B or C ({binding.source}), which takes no other"
        )
        yield Finding("revision_heads", ("head_nums",), message, 161002, "EZ0026")
