# SPDX-License-Identifier: Apache-2.0
"""Rules of aclnnQkvRmsNormRopeCacheWithKScale, revision A, in the order in which CANN's phase 1 checks.

The numbers in the comments are those of its decision list. Each function is one stage; a stage that finds something
is the last, since the later ones rely on it. Rules with status 0 are this package's own, for what CANN lets through
and the device would do wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache.dtypes import BFLOAT16, FLOAT32, FP8_E4M3FN, INT32
from aclnn_kvcache.rules.batches import check_batches
from aclnn_kvcache.rules.common import (
    INNER,
    INVALID,
    Specs,
    first_stage,
    missing,
    negative_strides,
    out_of_bounds,
    wrong_dtypes,
)
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.slots import check_slots

API = "aclnnQkvRmsNormRopeCacheWithKScale"
DTYPES = {
    "qkv": (BFLOAT16,),
    "q_gamma": (FLOAT32,),
    "k_gamma": (FLOAT32,),
    "cos_sin": (FLOAT32,),
    "slot_mapping": (INT32,),
    "k_cache": (FP8_E4M3FN,),
    "v_cache": (FP8_E4M3FN,),
    "k_scale_cache": (FLOAT32,),
    "query_start_loc": (INT32,),
    "seq_lens": (INT32,),
    "rotation": (BFLOAT16,),
    "v_scale": (FLOAT32,),
    "q_out": (FP8_E4M3FN,),
    "q_scale": (FLOAT32,),
}
TENSORS = tuple(DTYPES)
CACHES = ("k_cache", "v_cache", "k_scale_cache")
OUTPUTS = ("q_out", "q_scale")
INPUTS = tuple(name for name in TENSORS if name not in CACHES + OUTPUTS)
WRITTEN = (*CACHES, *OUTPUTS)
NAMES = (*TENSORS[:-2], "head_nums", *OUTPUTS)
"""The required arguments, in the order of the C function."""

LAYOUTS = ("TND", "NTD")
DEFAULT_LAYOUTS = ("TND", "NTD")
"""What NULL and "" stand for, for qkv and for q_out."""

D = 128
MOST_QK, MOST_HEADS = 128, 160
PRIVATE_FORMATS = (3, 4, 12, 29, 32, 33, *range(50, 55))
PASSING_FORMATS = (0, 1, 2, 16, 27, 30, 35, 47)


class Call(NamedTuple):
    specs: Specs
    head_nums: Sequence[int]
    layout_qkv: str
    layout_q_out: str
    epsilon: float

    @property
    def tokens(self) -> int:
        return self.specs["qkv"].shape[self.layout_qkv.index("T")]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.specs[name].shape


Extent = Callable[[Call], "int | None"]

_ANY: Extent = lambda call: None  # noqa: E731
_D: Extent = lambda call: D  # noqa: E731
_ONE: Extent = lambda call: 1  # noqa: E731
_T: Extent = lambda call: call.tokens  # noqa: E731
_NK: Extent = lambda call: call.head_nums[1]  # noqa: E731
_NV: Extent = lambda call: call.head_nums[2]  # noqa: E731


def _batches(call: Call) -> int | None:
    shape = call.shape("query_start_loc")
    return shape[0] - 1 if len(shape) == 1 else None


# 14 and 15: in turn; all answer EZ0009.
SHAPES: tuple[tuple[str, str, tuple[Extent, ...]], ...] = (
    ("cos_sin", "[MaxSeqLen, D]", (_ANY, _D)),
    ("slot_mapping", "[T]", (_T,)),
    ("query_start_loc", "[B + 1] with at least one batch", (lambda call: max(2, call.shape("query_start_loc")[0]),)),
    ("seq_lens", "[B]", (_batches,)),
    ("rotation", "[D, D]", (_D, _D)),
    ("v_scale", "[Nv]", (_NV,)),
    ("k_cache", "[BlockNum, Nk, BlockSize, D]", (_ANY, _NK, _ANY, _D)),
    ("v_cache", "[BlockNum, Nv, BlockSize, D]", (_ANY, _NV, _ANY, _D)),
    ("k_scale_cache", "[BlockNum, Nk, BlockSize, 1]", (_ANY, _NK, _ANY, _ONE)),
)


def check(
    specs: Mapping[str, TensorSpec | None],
    head_nums: Sequence[int] | None,
    layout_qkv: str | None = None,
    layout_q_out: str | None = None,
    epsilon: float = 1e-6,
) -> list[Finding]:
    """What is wrong with a call, in CANN's order; empty for a call that the device carries out as documented.

    ``specs`` has an entry for each of ``TENSORS``. Values are looked at by ``check_values``, overlaps by
    ``check_overlap`` with ``WRITTEN``.
    """
    absent = list(missing({**specs, "head_nums": head_nums}, NAMES, "EZ0026"))
    if absent or head_nums is None:
        return absent
    present: Specs = {name: spec for name, spec in specs.items() if spec is not None}
    layouts = layout_qkv or DEFAULT_LAYOUTS[0], layout_q_out or DEFAULT_LAYOUTS[1]
    call = Call(present, head_nums, *layouts, epsilon)
    return first_stage(stage(call) for stage in _STAGES)


def check_values(specs: Specs, values: Mapping[str, np.ndarray[Any, Any]]) -> list[Finding]:
    """What is wrong with slots, batches and positions, for a call in which ``check`` finds nothing.

    ``values`` holds those of slot_mapping, query_start_loc and seq_lens that are on the host; CANN looks at none.
    """
    found: list[Finding] = []
    if "slot_mapping" in values:
        blocks, _, block_size, _ = specs["k_cache"].shape
        found += check_slots(values["slot_mapping"], blocks, block_size, skip_padding=False, can_skip=False)
    if "query_start_loc" in values:
        tokens, rows = specs["slot_mapping"].shape[0], specs["cos_sin"].shape[0]
        found += check_batches(values["query_start_loc"], values.get("seq_lens"), tokens, rows)
    return found


def _empty(call: Call) -> Iterator[Finding]:  # 3
    for name in TENSORS:
        if call.specs[name].is_empty:
            message = f"{name} must not be empty, got {list(call.shape(name))}; without tokens do not call"
            yield Finding("empty", (name,), message, INVALID, "EZ0026")


def _dtypes(call: Call) -> Iterator[Finding]:  # 4
    return wrong_dtypes(call.specs, DTYPES, "EZ0020")


def _head_nums(call: Call) -> Iterator[Finding]:  # 5 to 7
    counts = list(call.head_nums)
    ez = None
    if len(counts) != 3:
        ez, wanted = "EZ0025", "three counts, Nq, Nk and Nv"
    elif min(counts) <= 0:
        ez, wanted = "EZ0026", "counts above 0"
    elif counts[1] != counts[2]:
        ez, wanted = "EZ0026", "as many K as V heads"
    if ez:
        yield Finding("head_nums", ("head_nums",), f"head_nums must have {wanted}, got {counts}", INVALID, ez)


def _layouts(call: Call) -> Iterator[Finding]:  # 8, 9
    given = {"layout_qkv": call.layout_qkv, "layout_q_out": call.layout_q_out}
    for (name, layout), default in zip(given.items(), DEFAULT_LAYOUTS, strict=True):
        if layout not in LAYOUTS:
            message = f"{name} must be 'TND' or 'NTD' (None means {default!r}), got {layout!r}"
            yield Finding("layout", (name,), message, INVALID, "EZ0026")
    if tuple(given.values()) == ("NTD", "TND"):
        message = "layout_q_out must be 'NTD' where layout_qkv is 'NTD', got 'TND'; transpose q_out afterwards"
        yield Finding("layout", ("layout_q_out",), message, INVALID, "EZ0026")


def _qkv_rank(call: Call) -> Iterator[Finding]:  # 10
    shape = call.shape("qkv")
    if len(shape) != 3:
        message = f"qkv must have the 3 dimensions {', '.join(call.layout_qkv)}, got {list(shape)}"
        yield Finding("rank", ("qkv",), message, INVALID, "EZ0012")


def _qkv_shape(call: Call) -> Iterator[Finding]:  # 11, 12
    shape, heads = call.shape("qkv"), sum(call.head_nums)
    axis = call.layout_qkv.index("N")
    if shape[axis] != heads:
        message = (
            f"qkv must have the {heads} heads of head_nums {list(call.head_nums)} on axis {axis} with layout_qkv "
            f"{call.layout_qkv!r}, got {list(shape)}"
        )
        yield Finding("heads", ("qkv", "head_nums"), message, INVALID, "EZ0027")
    if shape[2] != D:
        yield Finding("head_size", ("qkv",), f"qkv must have head size {D}, got {list(shape)}", INVALID, "EZ0026")


def _gammas(call: Call) -> Iterator[Finding]:  # 13
    shapes = [call.shape(name) for name in ("q_gamma", "k_gamma")]
    if shapes != [(D,), (D,)]:
        message = f"q_gamma and k_gamma must be [D] = [{D}], got {list(shapes[0])} and {list(shapes[1])}"
        yield Finding("shape", ("q_gamma", "k_gamma"), message, INVALID, "EZ0010")


def _shapes(call: Call) -> Iterator[Finding]:  # 14, 15
    for name, symbols, extents in SHAPES:
        shape = call.shape(name)
        want = [extent(call) if len(shape) == len(extents) else None for extent in extents]
        if len(shape) == len(want) and all(w in (None, got) for w, got in zip(want, shape, strict=True)):
            continue
        wanted = ", ".join("any" if w is None else str(w) for w in want)
        message = (
            f"{name} must be {symbols} ([{wanted}]), got {list(shape)}; T = {call.tokens}, head_nums "
            f"{list(call.head_nums)}, D = {D}, query_start_loc {list(call.shape('query_start_loc'))}"
        )
        yield Finding("shape", (name,), message, INVALID, "EZ0009")


def _blocks(call: Call) -> Iterator[Finding]:  # 16, 17
    for pair, ez in (("k_cache", "k_scale_cache"), "EZ0010"), (("v_cache", "k_cache"), "EZ0010"):
        a, b = ((call.shape(name)[0], call.shape(name)[2]) for name in pair)
        if a != b:
            message = (
                f"{pair[0]} and {pair[1]} must have one number of blocks and one block size, got {a[0]} blocks of {a[1]} "
                f"and {b[0]} of {b[1]}"
            )
            yield Finding("blocks", pair, message, INVALID, ez)


def _outputs(call: Call) -> Iterator[Finding]:  # 18
    want = [call.tokens, call.head_nums[0]]
    if call.layout_q_out == "NTD":
        want.reverse()
    if call.shape("q_out") != (*want, D) or call.shape("q_scale") != tuple(want):
        message = (
            f"q_out and q_scale must be {[*want, D]} and {want} with layout_q_out {call.layout_q_out!r}, got "
            f"{list(call.shape('q_out'))} and {list(call.shape('q_scale'))}"
        )
        yield Finding("shape", OUTPUTS, message, INVALID, "EZ0010")


def _formats(call: Call) -> Iterator[Finding]:  # 19
    for name in TENSORS:
        number = call.specs[name].format
        if number in PRIVATE_FORMATS:
            message = f"{name} must not have a private format, got aclFormat {number}; use ND (2)"
            yield Finding("format", (name,), message, INVALID, "EZ0017")


def _memory_and_limits(call: Call) -> Iterator[Finding]:
    """One stage: what is out of bounds or unknown to CANN does not hide what it answers to."""
    yield from _bounds(call)
    yield from _extents(call)
    yield from _strides(call)
    yield from _head_limits(call)
    for name in TENSORS:
        number = call.specs[name].format
        if number not in PASSING_FORMATS + PRIVATE_FORMATS:
            message = f"{name} has aclFormat {number}, for which CANN defines nothing; use ND (2)"
            yield Finding("format", (name,), message)
    with np.errstate(all="ignore"):
        fits = np.isfinite(np.float32(call.epsilon)) and call.epsilon >= 0
    if not fits:
        message = f"epsilon must be a finite float32 that is not negative, got {call.epsilon!r}; CANN does not look"
        yield Finding("epsilon", ("epsilon",), message)


def _bounds(call: Call) -> Iterator[Finding]:
    for name in (*INPUTS, *CACHES, *OUTPUTS):
        spec = call.specs[name]
        if name in CACHES and spec.offset > spec.storage:  # 20
            yield out_of_bounds(name, spec, INNER, "EZ9999")
        elif spec.is_outside and min(spec.shape) > 0:
            copied = name in INPUTS and not spec.is_contiguous  # 19a
            yield out_of_bounds(name, spec, *((INNER, "EZ1001") if copied else (0, None)))


def _extents(call: Call) -> Iterator[Finding]:
    for name in TENSORS:
        if min(call.shape(name)) < 0:
            message = f"{name} must have no negative dimension, got {list(call.shape(name))}"
            seen = name == "cos_sin"  # 21
            yield Finding("extent", (name,), message, *((INNER, "EZ0009") if seen else (0, None)))


def _strides(call: Call) -> Iterator[Finding]:
    k, v, scale = (call.specs[name].strides for name in CACHES)
    for name, strides in (("k_cache", k), ("v_cache", v)):  # 22
        if min(strides[:3]) <= 0 or strides[3] != 1:
            yield _stride(name, "the last stride 1 and the others above 0", strides)
    if k[:3] != v[:3]:  # 23
        message = (
            f"k_cache and v_cache must have the same strides, since the kernel uses one set for both, got {list(k)} and "
            f"{list(v)}; give both one layout"
        )
        yield Finding("strides", ("k_cache", "v_cache"), message, INNER, "EZ0027")
    if min(scale) <= 0 or scale[3] != 1:  # 24
        yield _stride(
            "k_scale_cache", "the last stride 1, though that axis has extent 1, and the others above 0", scale
        )
    yield from negative_strides(call.specs, INPUTS)
    for name in OUTPUTS:
        spec = call.specs[name]
        if not spec.is_contiguous:
            message = (
                f"{name} must be contiguous, got strides {list(spec.strides)} for {list(spec.shape)}; CANN ignores them, "
                f"the results would land as if it were: pass a contiguous array"
            )
            yield Finding("contiguous", (name,), message)


def _stride(name: str, wanted: str, strides: tuple[int, ...]) -> Finding:
    return Finding("strides", (name,), f"{name} must have {wanted}, got {list(strides)}", INNER, "EZ0028")


def _head_limits(call: Call) -> Iterator[Finding]:  # 25
    nq, nk, nv = call.head_nums
    for symbols, heads, most in ("Nq + Nk", nq + nk, MOST_QK), ("Nq + Nk + Nv", nq + nk + nv, MOST_HEADS):
        if heads > most:
            message = f"head_nums must have {symbols} of at most {most}, got {heads} of {list(call.head_nums)}"
            yield Finding("head_limit", ("head_nums",), f"{message}; split the heads", INNER, "EZ0026")


_STAGES: tuple[Callable[[Call], Iterator[Finding]], ...] = (
    _empty,
    _dtypes,
    _head_nums,
    _layouts,
    _qkv_rank,
    _qkv_shape,
    _gammas,
    _shapes,
    _blocks,
    _outputs,
    _formats,
    _memory_and_limits,
)
