# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on head counts, layouts and shapes: decisions 3 and 5 to 18 of CANN's phase 1."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aclnn_kvcache.rules.families import Extent, Shape, decision, shape_rules
from aclnn_kvcache.rules.qkv_call import (
    DEFAULT_LAYOUTS,
    LAYOUTS,
    OUTPUTS,
    TENSORS,
    D,
    batch_count,
    filled,
    head_counts,
    layout_of,
    qkv_shape,
    three_heads,
    token_count,
)
from aclnn_kvcache.rules.rule import INVALID, Broken, Call, Rule

_ANY: Extent = lambda call: None  # noqa: E731
_D: Extent = lambda call: D  # noqa: E731
_ONE: Extent = lambda call: 1  # noqa: E731
_NK: Extent = lambda call: head_counts(call)[1]  # noqa: E731
_NV: Extent = lambda call: head_counts(call)[2]  # noqa: E731
_STARTS: Extent = lambda call: max(2, *filled(call, "query_start_loc")[:1], 0)  # noqa: E731

_SHAPES: tuple[tuple[str, str, tuple[Extent, ...], str], ...] = (
    ("cos_sin", "[MaxSeqLen, D]", (_ANY, _D), "14"),
    ("slot_mapping", "[T]", (token_count,), "14"),
    ("query_start_loc", "[B + 1], with at least one batch", (_STARTS,), "14"),
    ("seq_lens", "[B]", (batch_count,), "14"),
    ("rotation", "[D, D]", (_D, _D), "14"),
    ("v_scale", "[Nv]", (_NV,), "14"),
    ("k_cache", "[BlockNum, Nk, BlockSize, D]", (_ANY, _NK, _ANY, _D), "15"),
    ("v_cache", "[BlockNum, Nv, BlockSize, D]", (_ANY, _NV, _ANY, _D), "15"),
    ("k_scale_cache", "[BlockNum, Nk, BlockSize, 1]", (_ANY, _NK, _ANY, _ONE), "15"),
)
SHAPES = tuple(
    Shape(f"shape.{name}", name, symbols, extents, decision(number), INVALID, "EZ0009")
    for name, symbols, extents, number in _SHAPES
)


def empty_rules() -> Iterator[Rule]:
    for name in TENSORS:
        expected = f"{name} must not be empty"
        yield Rule(f"empty.{name}", (name,), expected, decision("3"), partial(_empty, name), INVALID, "EZ0026")


def _empty(name: str, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if spec.is_empty:
        hint = "; without tokens do not call the operator" if name == "qkv" else ""
        yield f"{name} must not be empty, got {list(spec.shape)}{hint}"


def _three(call: Call) -> Iterator[str]:
    counts = call.attributes["head_nums"]
    if counts is not None and len(counts) != 3:
        yield f"head_nums must have three counts, Nq, Nk and Nv, got {list(counts)}"


def _positive(call: Call) -> Iterator[str]:
    counts = three_heads(call)
    if min(counts) <= 0:
        yield f"head_nums must have counts above 0, got {list(counts)}"


def _equal(call: Call) -> Iterator[str]:
    counts = head_counts(call)
    if counts[1] != counts[2]:
        yield f"head_nums must have as many K as V heads, got {list(counts)}"


def _layout(name: str, call: Call) -> Iterator[str]:
    layout = call.attributes[name]
    if layout and layout not in LAYOUTS:
        yield f"{name} must be 'TND' or 'NTD' (None means {DEFAULT_LAYOUTS[name]!r}), got {layout!r}"


def _layout_pair(call: Call) -> Iterator[str]:
    if (layout_of(call, "layout_qkv"), layout_of(call, "layout_q_out")) == ("NTD", "TND"):
        yield "layout_q_out must be 'NTD' where layout_qkv is 'NTD', got 'TND'; transpose q_out afterwards"


def _qkv_rank(call: Call) -> Iterator[str]:
    shape = filled(call, "qkv")
    if len(shape) != 3:
        yield f"qkv must have 3 dimensions, tokens, heads and head size (or heads first), got {list(shape)}"


def _qkv_heads(call: Call) -> Iterator[str]:
    shape, counts, layout = qkv_shape(call), head_counts(call), layout_of(call, "layout_qkv")
    axis = layout.index("N")
    if shape[axis] != sum(counts):
        yield (
            f"qkv must have the {sum(counts)} heads of head_nums {list(counts)} on axis {axis} with layout_qkv "
            f"{layout!r}, got {list(shape)}"
        )


def _qkv_head_size(call: Call) -> Iterator[str]:
    shape = qkv_shape(call)
    if shape[2] != D:
        yield f"qkv must have head size {D}, got {list(shape)}"


def _gammas(call: Call) -> Iterator[str]:
    shapes = [filled(call, name) for name in ("q_gamma", "k_gamma")]
    if shapes != [(D,), (D,)]:
        yield f"q_gamma and k_gamma must be [D] = [{D}], got {list(shapes[0])} and {list(shapes[1])}"


def _blocks(pair: tuple[str, str], call: Call) -> Iterator[str]:
    shapes = [filled(call, name) for name in pair]
    if any(len(shape) != 4 for shape in shapes):
        return
    a, b = ((shape[0], shape[2]) for shape in shapes)
    if a != b:
        yield (
            f"{pair[0]} and {pair[1]} must have one number of blocks and one block size, got {a[0]} blocks of {a[1]} "
            f"and {b[0]} of {b[1]}"
        )


def _outputs(call: Call) -> Iterator[str]:
    out, scale = filled(call, "q_out"), filled(call, "q_scale")
    layout = layout_of(call, "layout_q_out")
    want = [token_count(call), head_counts(call)[0]]
    if layout == "NTD":
        want.reverse()
    if out != (*want, D) or scale != tuple(want):
        yield (
            f"q_out and q_scale must be {[*want, D]} and {want} with layout_q_out {layout!r}, got {list(out)} and "
            f"{list(scale)}"
        )


def _origin(call: Call) -> str:
    shapes = {name: list(spec.shape) for name, spec in call.specs.items() if spec is not None}
    layout, heads = (call.attributes[name] for name in ("layout_qkv", "head_nums"))
    return (
        f"T is that of qkv {shapes.get('qkv')} with layout_qkv {layout!r}, Nk and Nv those of head_nums "
        f"{heads if heads is None else list(heads)}, B + 1 the length of query_start_loc "
        f"{shapes.get('query_start_loc')}, D = {D}"
    )


def _rule(id: str, arguments: tuple[str, ...], expected: str, number: str, broken: Broken, ez: str) -> Rule:
    return Rule(id, arguments, expected, decision(number), broken, INVALID, ez)


HEADS, GAMMAS = ("head_nums",), ("q_gamma", "k_gamma")
K_BLOCKS, V_BLOCKS = ("k_cache", "k_scale_cache"), ("v_cache", "k_cache")
SAME_BLOCKS = "{} and {} must have one number of blocks and one block size".format

SHAPE_RULES: tuple[Rule, ...] = (
    _rule("head_nums.length", HEADS, "head_nums must have three counts, Nq, Nk and Nv", "5", _three, "EZ0025"),
    _rule("head_nums.positive", HEADS, "the counts of head_nums must be above 0", "6", _positive, "EZ0026"),
    _rule("head_nums.equal", HEADS, "head_nums must have as many K as V heads", "7", _equal, "EZ0026"),
    *(
        _rule(f"layout.{name}", (name,), f"{name} must be TND, NTD or None", number, partial(_layout, name), "EZ0026")
        for name, number in (("layout_qkv", "8"), ("layout_q_out", "9"))
    ),
    _rule(
        "layout_pair", ("layout_q_out",), "layout_q_out must be NTD where layout_qkv is", "9", _layout_pair, "EZ0026"
    ),
    _rule("rank.qkv", ("qkv",), "qkv must have 3 dimensions", "10", _qkv_rank, "EZ0012"),
    _rule(
        "heads.qkv", ("qkv", "head_nums"), "qkv must have the heads that head_nums counts", "11", _qkv_heads, "EZ0027"
    ),
    _rule("head_size.qkv", ("qkv",), f"qkv must have head size {D}", "12", _qkv_head_size, "EZ0026"),
    _rule("shape.q_gamma.k_gamma", GAMMAS, f"q_gamma and k_gamma must be [{D}]", "13", _gammas, "EZ0010"),
    *shape_rules(SHAPES, filled, _origin),
    *(
        _rule(f"blocks.{a}.{b}", (a, b), SAME_BLOCKS(a, b), number, partial(_blocks, (a, b)), "EZ0010")
        for (a, b), number in ((K_BLOCKS, "16"), (V_BLOCKS, "17"))
    ),
    _rule("shape.q_out.q_scale", OUTPUTS, "q_out and q_scale must have Nq heads of T tokens", "18", _outputs, "EZ0010"),
)
