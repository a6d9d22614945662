# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on emptiness and shapes; each revision numbers its decisions anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from aclnn_kvcache.rules.families import Extent, Shape, decision, shape_rules
from aclnn_kvcache.rules.qkv_call import batch_count, filled, head_counts, output_rows, token_count
from aclnn_kvcache.rules.qkv_heads import rule
from aclnn_kvcache.rules.qkv_scenes import D
from aclnn_kvcache.rules.rule import INVALID, Call, Rule


def fixed(extent: int) -> Extent:
    return lambda call: extent


OF_D = fixed(D)
ANY: Extent = lambda call: None  # noqa: E731
OF_NK: Extent = lambda call: head_counts(call)[1]  # noqa: E731
OF_NV: Extent = lambda call: head_counts(call)[2]  # noqa: E731
STARTS: Extent = lambda call: max(2, *filled(call, "query_start_loc")[:1], 0)  # noqa: E731

OwnShape = Callable[[Call, str], tuple[int, ...]]
"""The shape of a tensor, if no other rule speaks of it; else raises Unanswerable."""


def output_extents(*last: int) -> tuple[Extent, ...]:
    """T and Nq in the order of layout_q_out, then the extents given."""
    rows = (lambda call: output_rows(call)[0], lambda call: output_rows(call)[1])
    return *rows, *map(fixed, last)


class Row(NamedTuple):
    """A tensor's shape in symbols, and what the symbols stand for."""

    name: str
    symbols: str
    extents: tuple[Extent, ...]
    others: tuple[str, ...] = ()


COS_SIN = Row("cos_sin", "[MaxSeqLen, D]", (ANY, OF_D))
SLOT_MAPPING = Row("slot_mapping", "[T]", (token_count,))
QUERY_START_LOC = Row("query_start_loc", "[B + 1], with at least one batch", (STARTS,))
SEQ_LENS = Row("seq_lens", "[B]", (batch_count,))
MROPE_POSITION = Row("mrope_position", "[T, 3]", (token_count, fixed(3)))
ROTATION = Row("rotation", "[D, D]", (OF_D, OF_D))
V_SCALE = Row("v_scale", "[Nv]", (OF_NV,))
V_SCALE_BY_CHANNEL = Row("v_scale", "[Nv, D]", (OF_NV, OF_D))
K_CACHE = Row("k_cache", "[BlockNum, Nk, BlockSize, D]", (ANY, OF_NK, ANY, OF_D))
CACHES_ALONE = (
    K_CACHE,
    Row("v_cache", "[BlockNum, Nv, BlockSize, D]", (ANY, OF_NV, ANY, OF_D)),
    Row("k_scale_cache", "[BlockNum, Nk, BlockSize, 1]", (ANY, OF_NK, ANY, fixed(1))),
)
"""Each cache without a look at the others."""
Q_OUT = Row("q_out", "[T, Nq, D], or [Nq, T, D] with layout_q_out NTD", output_extents(D))
Q_SCALE = Row("q_scale", "[T, Nq], or [Nq, T] with layout_q_out NTD", output_extents())
Q_SCALE_BY_BLOCK = Row("q_scale", "[T, Nq, 4]", output_extents(4))


def shapes(
    rows: Iterable[Row],
    number: str,
    ez: str = "EZ0009",
    own: OwnShape = filled,
) -> Iterator[Rule]:
    """The rules of rows that CANN checks."""
    source = decision(number)
    return shape_rules(
        (Shape(f"shape.{row.name}", *row[:3], source, INVALID, ez, row.others) for row in rows), own, _origin
    )


def own_shapes(rows: Iterable[Row], source: str) -> Iterator[Rule]:
    """The rules of rows that CANN does not check."""
    return shape_rules((Shape(f"shape.{row.name}", *row[:3], source) for row in rows), _any_shape, _origin)


def _any_shape(call: Call, name: str) -> tuple[int, ...]:
    return call.spec(name).shape


def _origin(call: Call) -> str:
    shapes = {name: list(spec.shape) for name, spec in call.specs.items() if spec is not None}
    layout, heads = (call.attributes[name] for name in ("layout_qkv", "head_nums"))
    starts = shapes.get("query_start_loc")
    batches = "" if starts is None else f", B + 1 the length of query_start_loc {starts}"
    return (
        f"T is that of qkv {shapes.get('qkv')} with layout_qkv {layout!r}, Nk and Nv those of head_nums "
        f"{heads if heads is None else list(heads)}{batches}, D = {D}"
    )


def empty_rules(names: Iterable[str], number: str) -> Iterator[Rule]:
    for name in names:
        expected = f"{name} must not be empty"
        yield rule(f"empty.{name}", (name,), expected, number, partial(_empty, name), "EZ0026")


def _empty(name: str, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if spec.is_empty:
        hint = "; without tokens do not call the operator" if name == "qkv" else ""
        yield f"{name} must not be empty, got {list(spec.shape)}{hint}"


def gammas(number: str, own: OwnShape = filled) -> Rule:
    pair, expected = ("q_gamma", "k_gamma"), f"q_gamma and k_gamma must be [{D}]"
    return rule("shape.q_gamma.k_gamma", pair, expected, number, partial(_gammas, own), "EZ0010")


def _gammas(own: OwnShape, call: Call) -> Iterator[str]:
    shapes = [own(call, name) for name in ("q_gamma", "k_gamma")]
    if shapes != [(D,), (D,)]:
        yield f"q_gamma and k_gamma must be [D] = [{D}], got {list(shapes[0])} and {list(shapes[1])}"


def same_blocks(a: str, b: str, number: str) -> Rule:
    expected = f"{a} and {b} must have one number of blocks and one block size"
    return rule(f"blocks.{a}.{b}", (a, b), expected, number, partial(_blocks, (a, b)), "EZ0010")


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
