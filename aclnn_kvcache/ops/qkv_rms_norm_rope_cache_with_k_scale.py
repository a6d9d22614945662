# SPDX-License-Identifier: Apache-2.0
"""aclnnQkvRmsNormRopeCacheWithKScale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

import numpy as np

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.layout import dense_strides
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    Array,
    Arrays,
    place_of,
    raise_findings,
    regions_of,
    run_on_host_arrays,
    specs_of,
)
from aclnn_kvcache.rules import qkv_rms_norm_rope_cache_with_k_scale as rules
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.overlap import check_overlap
from aclnn_kvcache.rules.qkv_call import DTYPES, D
from aclnn_kvcache.runtime import memory
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream

VALUES = ("slot_mapping", "query_start_loc", "seq_lens")


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
    """Checks the arguments, by name as in ``rules.TENSORS``, and runs the operator. See the method of Session.

    An output that is None is allocated where the other arrays are.
    """
    place = place_of(device, arguments, [name for name in rules.WRITTEN if arguments[name] is not None])
    specs = dict(zip(rules.TENSORS, specs_of(arguments, rules.TENSORS), strict=True))
    shapes = _output_shapes(specs["qkv"], attributes)
    for name, shape in shapes.items():
        specs[name] = specs[name] or _dense_spec(shape, _dtype(name))
    raise_findings(rules.API, _check(tuple(specs.values()), attributes))
    present = cast("Mapping[str, TensorSpec]", specs)
    given = {name: array for name, array in arguments.items() if array is not None}
    written = [name for name in rules.WRITTEN if name in given]
    values = {name: array for name in VALUES if isinstance(array := given[name], np.ndarray)}
    findings = [*check_overlap(regions_of(given), written), *rules.check_values(present, values)]
    raise_findings(rules.API, [*findings, *_check_revision(device.library, attributes.head_nums or ())])
    if place == DEVICE:
        outputs = {
            name: given[name] if name in given else memory.empty(device, shape, _dtype(name))
            for name, shape in shapes.items()
        }
        _launch(device, stream, {**given, **outputs}, attributes)
    else:
        outputs = {
            name: given[name] if name in given else np.empty(shape, _dtype(name)) for name, shape in shapes.items()
        }
        run_on_host_arrays(
            device,
            cast("Mapping[str, np.ndarray]", {**given, **outputs}),
            rules.WRITTEN,
            lambda copies: _launch(device, stream, copies, attributes),
            stream,
            write_only=rules.OUTPUTS,
        )
    return outputs["q_out"], outputs["q_scale"]


def _launch(device: Device, stream: Stream, arrays: Mapping[str, Array], attributes: Attributes) -> None:
    texts = [None if text is None else text.encode() for text in (attributes.layout_qkv, attributes.layout_q_out)]
    tensors = [arrays[name] for name in rules.TENSORS]
    attributes_in_between = (attributes.head_nums, *texts, attributes.epsilon)
    launch(device, rules.API, [*tensors[:-2], *attributes_in_between, *tensors[-2:]], stream)


@lru_cache(maxsize=256)
def _check(specs: tuple[TensorSpec | None, ...], attributes: Attributes) -> list[Finding]:
    """What the rules find. Calls in a loop ask the same again and again."""
    return rules.check(dict(zip(rules.TENSORS, specs, strict=True)), *attributes)


def _dtype(output: str) -> np.dtype[Any]:
    dtype: np.dtype[Any] = DTYPES[output][0]
    return dtype


def _output_shapes(qkv: TensorSpec | None, attributes: Attributes) -> dict[str, tuple[int, ...]]:
    """Shapes of the outputs of a call whose qkv and attributes are right; of another, something for the rules."""
    token_major = (attributes.layout_qkv or "TND") == "TND"
    tokens = qkv.shape[0 if token_major else 1] if qkv is not None and len(qkv.shape) == 3 else 1
    heads = attributes.head_nums[0] if attributes.head_nums else 1
    rows = (tokens, max(heads, 1)) if attributes.layout_q_out == "TND" else (max(heads, 1), tokens)
    return {"q_out": (*rows, D), "q_scale": rows}


def _dense_spec(shape: Sequence[int], dtype: np.dtype[Any]) -> TensorSpec:
    return TensorSpec(tuple(shape), dtype, dense_strides(shape), 0, math.prod(shape))


def _check_revision(library: Library, head_nums: Sequence[int]) -> Iterator[Finding]:
    """Revisions B and C, told by their quantisation modes, take fewer combinations of heads than A."""
    _, binding = library.binding(f"{rules.API}GetWorkspaceSize")
    if not any(parameter.name == "qQuantMode" for parameter in binding.prototype.parameters):
        return
    q_heads, k_heads, _ = head_nums
    if q_heads > 64 or q_heads != 8 * k_heads:
        message = (
            f"head_nums must be (8 * Nk, Nk, Nk) with at most 64 Q heads, got {list(head_nums)}: the installed "
            f"operator is of revision B or C ({binding.source}), which takes no other"
        )
        yield Finding("revision_heads", ("head_nums",), message, 161002, "EZ0026")
