# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on dtypes, layouts, head counts and shapes: 3 to 18 of CANN's decision list.

Each function of ``STAGES`` is one stage; the numbers in the comments are those of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aclnn_kvcache.rules.common import INVALID, wrong_dtypes
from aclnn_kvcache.rules.finding import Finding
from aclnn_kvcache.rules.qkv_call import DEFAULT_LAYOUTS, DTYPES, LAYOUTS, OUTPUTS, TENSORS, Call, D

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
    (
        "query_start_loc",
        "[B + 1] with at least one batch",
        (lambda call: max(2, *call.shape("query_start_loc")[:1], 0),),
    ),
    ("seq_lens", "[B]", (_batches,)),
    ("rotation", "[D, D]", (_D, _D)),
    ("v_scale", "[Nv]", (_NV,)),
    ("k_cache", "[BlockNum, Nk, BlockSize, D]", (_ANY, _NK, _ANY, _D)),
    ("v_cache", "[BlockNum, Nv, BlockSize, D]", (_ANY, _NV, _ANY, _D)),
    ("k_scale_cache", "[BlockNum, Nk, BlockSize, 1]", (_ANY, _NK, _ANY, _ONE)),
)


def _empty(call: Call) -> Iterator[Finding]:  # 3
    for name in TENSORS:
        if call.specs[name].is_empty:
            message = f"{name} must not be empty, got {list(call.shape(name))}"
            message += "; without tokens do not call the operator" if name == "qkv" else ""
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
        want = [extent(call) for extent in extents]
        if len(shape) == len(want) and all(w in (None, got) for w, got in zip(want, shape, strict=True)):
            continue
        wanted = ", ".join("any" if w is None else str(w) for w in want)
        message = (
            f"{name} must be {symbols} ([{wanted}]), got {list(shape)}; T = {call.tokens}, head_nums "
            f"{list(call.head_nums)}, D = {D}, query_start_loc {list(call.shape('query_start_loc'))}"
        )
        yield Finding("shape", (name,), message, INVALID, "EZ0009")


def _blocks(call: Call) -> Iterator[Finding]:  # 16, 17
    for pair in ("k_cache", "k_scale_cache"), ("v_cache", "k_cache"):
        a, b = ((call.shape(name)[0], call.shape(name)[2]) for name in pair)
        if a != b:
            message = (
                f"{pair[0]} and {pair[1]} must have one number of blocks and one block size, got {a[0]} blocks of "
                f"{a[1]} and {b[0]} of {b[1]}"
            )
            yield Finding("blocks", pair, message, INVALID, "EZ0010")


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


STAGES: tuple[Callable[[Call], Iterator[Finding]], ...] = (
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
)
