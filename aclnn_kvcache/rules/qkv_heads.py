# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on head counts, layouts and qkv's shape; each revision numbers its decisions anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from aclnn_kvcache.rules.families import decision
from aclnn_kvcache.rules.qkv_call import LAYOUT_NAMES, LAYOUTS, head_counts, layout_of, layouts_of, three_heads
from aclnn_kvcache.rules.qkv_scenes import DEFAULT_LAYOUTS, NTD, TND, D
from aclnn_kvcache.rules.rule import INVALID, Broken, Call, Rule

HEADS = ("head_nums",)
MOST_Q, Q_PER_K = 64, 8
OTHER_COUNTS = "; revision A of the operator takes other counts too"

QkvShape = Callable[[Call], tuple[int, ...]]
"""The shape of a qkv that has three axes. Raises Unanswerable for others."""


def rule(id: str, arguments: tuple[str, ...], expected: str, number: str, broken: Broken, ez: str) -> Rule:
    """A rule on attributes and shapes: CANN answers 161002."""
    return Rule(id, arguments, expected, decision(number), broken, INVALID, ez)


def three_counts(number: str) -> Rule:
    expected = "head_nums must have three counts, Nq, Nk and Nv"
    return rule("head_nums.length", HEADS, expected, number, _three, "EZ0025")


def _three(call: Call) -> Iterator[str]:
    counts = call.attributes["head_nums"]
    if counts is not None and len(counts) != 3:
        yield f"head_nums must have three counts, Nq, Nk and Nv, got {list(counts)}"


def positive_counts(number: str) -> Rule:
    expected = "the counts of head_nums must be above 0"
    return rule("head_nums.positive", HEADS, expected, number, _positive, "EZ0026")


def _positive(call: Call) -> Iterator[str]:
    counts = three_heads(call)
    if min(counts) <= 0:
        yield f"head_nums must have counts above 0, got {list(counts)}"


def equal_counts(number: str) -> Rule:
    expected = "head_nums must have as many K as V heads"
    return rule("head_nums.equal", HEADS, expected, number, _equal, "EZ0026")


def _equal(call: Call) -> Iterator[str]:
    counts = head_counts(call)
    if counts[1] != counts[2]:
        yield f"head_nums must have as many K as V heads, got {list(counts)}"


def few_q_heads(number: str) -> Rule:
    expected = f"head_nums must have at most {MOST_Q} Q heads"
    return rule("head_nums.most", HEADS, expected, number, _few, "EZ0024")


def _few(call: Call) -> Iterator[str]:
    counts = head_counts(call)
    if counts[0] > MOST_Q:
        yield f"head_nums must be at most {MOST_Q} for Q, got {list(counts)}{OTHER_COUNTS}"


def q_heads_per_k_head(number: str) -> Rule:
    expected = f"head_nums must have {Q_PER_K} Q heads for each K head"
    return rule("head_nums.ratio", HEADS, expected, number, _ratio, "EZ0026")


def _ratio(call: Call) -> Iterator[str]:
    counts = head_counts(call)
    if counts[0] != Q_PER_K * counts[1]:
        yield f"head_nums must be ({Q_PER_K} * Nk, Nk, Nk), got {list(counts)}{OTHER_COUNTS}"


def counts_in_one(number: str) -> Rule:
    """All but the length of the list."""
    expected = f"head_nums must be ({Q_PER_K} * Nk, Nk, Nk) with 1 to {MOST_Q} Q heads"
    return rule("head_nums", HEADS, expected, number, partial(_counts, expected), "EZ0026")


def _counts(expected: str, call: Call) -> Iterator[str]:
    q, k, v = three_heads(call)
    if not (0 < q <= MOST_Q and q == Q_PER_K * k and v == k):
        yield f"{expected}, got {[q, k, v]}{OTHER_COUNTS if min(q, k) > 0 and v == k else ''}"


def known_layout(name: str, number: str, ez: str) -> Rule:
    return rule(f"layout.{name}", (name,), f"{name} must be TND, NTD or None", number, partial(_layout, name), ez)


def _layout(name: str, call: Call) -> Iterator[str]:
    layout = call.attributes[name]
    if layout and layout not in LAYOUTS:
        yield f"{name} must be 'TND' or 'NTD' (None means {DEFAULT_LAYOUTS[name]!r}), got {layout!r}"


def layout_pair(number: str) -> Rule:
    expected = "layout_q_out must be NTD where layout_qkv is"
    return rule("layout_pair", ("layout_q_out",), expected, number, _layout_pair, "EZ0026")


def _layout_pair(call: Call) -> Iterator[str]:
    if layouts_of(call) == (NTD, TND):
        yield "layout_q_out must be 'NTD' where layout_qkv is 'NTD', got 'TND'; transpose q_out afterwards"


def token_major(number: str) -> Rule:
    expected = "layout_qkv and layout_q_out must be TND, the latter not by default"
    return rule("token_major", LAYOUT_NAMES, expected, number, _token_major, "EZ0026")


def _token_major(call: Call) -> Iterator[str]:
    layouts = layouts_of(call)
    if layouts != (TND, TND):
        got = " and ".join(map(repr, layouts))
        yield f"layout_qkv and layout_q_out must be 'TND' and 'TND', got {got}; transpose q_out afterwards"


def qkv_rank(number: str) -> Rule:
    return rule("rank.qkv", ("qkv",), "qkv must have 3 dimensions", number, _qkv_rank, "EZ0012")


def _qkv_rank(call: Call) -> Iterator[str]:
    shape = call.spec("qkv").shape
    if len(shape) != 3:
        yield f"qkv must have 3 dimensions, tokens, heads and head size (or heads first), got {list(shape)}"


def qkv_heads(number: str, shape_of: QkvShape) -> Rule:
    expected = "qkv must have the heads that head_nums counts"
    return rule("heads.qkv", ("qkv", "head_nums"), expected, number, partial(_qkv_heads, shape_of), "EZ0027")


def _qkv_heads(shape_of: QkvShape, call: Call) -> Iterator[str]:
    shape, counts, layout = shape_of(call), head_counts(call), layout_of(call, "layout_qkv")
    axis = layout.index("N")
    if shape[axis] != sum(counts):
        yield (
            f"qkv must have the {sum(counts)} heads of head_nums {list(counts)} on axis {axis} with layout_qkv "
            f"{layout!r}, got {list(shape)}"
        )


def qkv_head_size(number: str, shape_of: QkvShape) -> Rule:
    expected = f"qkv must have head size {D}"
    return rule("head_size.qkv", ("qkv",), expected, number, partial(_qkv_head_size, shape_of), "EZ0026")


def _qkv_head_size(shape_of: QkvShape, call: Call) -> Iterator[str]:
    shape = shape_of(call)
    if shape[2] != D:
        yield f"qkv must have head size {D}, got {list(shape)}"
