# SPDX-License-Identifier: Apache-2.0
"""The steps of a comparison: what was given is checked, rows are sorted by kind, and elements measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from aclnn_kvcache.compare.mx import Mx, Pairs, pair
from aclnn_kvcache.compare.report import WITH_BEFORE, WITHOUT_BEFORE, Comparison, Row, RowGroup
from aclnn_kvcache.compare.rows import Worst, blocks, describe_row, place, sort_rows
from aclnn_kvcache.compare.rules import Array, Exact, Mask, Relative, Rule, Tolerant
from aclnn_kvcache.compare.steps import Bf16, Fp8, Int8

RULES: Mapping[str, tuple[Callable[..., Rule], Mapping[str, float]]] = {
    "exact": (Exact, {}),
    "fp8": (Fp8, {"max_steps": 1, "max_share": 0.001}),
    "bf16": (Bf16, {"max_steps": 1, "max_share": 0.01}),
    "int8": (Int8, {"max_steps": 1, "max_share": 1}),
    "relative": (Relative, {"rtol": 1e-6}),
    "mx": (Mx, {"max_steps": 1, "max_share": 0.01, "rtol": 0.01}),
}
"""Each with the limits that it takes, as they are where none are given."""


def compared(
    actual: Array,
    expected: Array,
    rule: str,
    before: Array | None,
    scale: Sequence[Array] | None,
    limits: Mapping[str, float | None],
) -> Comparison:
    """See ``compare``."""
    if not isinstance(rule, str) or rule not in RULES:
        raise ValueError(f"rule: expected one of {', '.join(map(repr, RULES))}, got {rule!r}")
    judge = _rule_with(rule, {name: limit for name, limit in limits.items() if limit is not None})
    arrays = {"expected": expected, "actual": actual} | ({} if before is None else {"before": before})
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{name}: expected a NumPy array, got {type(array).__name__}")
        if array.dtype.hasobject:
            raise TypeError(f"{name}: expected a dtype made of bytes, got {array.dtype}")
        if array.dtype != expected.dtype:
            raise TypeError(f"{name}: expected dtype {expected.dtype} as expected has, got {array.dtype}")
        if array.shape != expected.shape:
            raise ValueError(f"{name}: expected shape {expected.shape} as expected has, got {array.shape}")

    judge.check_dtype(expected.dtype)
    numbers = [np.atleast_1d(np.asarray(array)) for array in (actual, expected, before) if array is not None]
    rows: Sequence[Array | Pairs] = numbers
    if rule == "mx":
        rows = pair(numbers, scale)
    elif scale is not None:
        raise ValueError(f"scale: expected None, since rule {rule!r} takes no scales")
    tolerant = None if isinstance(judge, Exact) else cast(Tolerant, judge)
    worst = None if tolerant is None else Worst(tolerant)
    groups = _compare_rows(judge, worst, rows)
    elements = None if tolerant is None or worst is None else tolerant.report(worst.where)
    return Comparison(rule, actual.shape, str(actual.dtype), groups, elements)


def _rule_with(rule: str, given: Mapping[str, float]) -> Rule:
    make, usual = RULES[rule]
    for name in given:
        if name not in usual:
            takes = f"takes {' and '.join(usual)}" if usual else "takes no limits"
            raise ValueError(f"{name}: expected None, since rule {rule!r} does not use it; it {takes}")
    return make(**{**usual, **given})


def _compare_rows(rule: Rule, worst: Worst | None, arrays: Sequence[Array | Pairs]) -> tuple[RowGroup, ...]:
    counts = dict.fromkeys(WITHOUT_BEFORE if len(arrays) == 2 else WITH_BEFORE, 0)
    first: dict[str, Row] = {}
    for block in blocks(arrays[0].shape):
        parts = [array[block] for array in arrays]
        kinds = sort_rows(rule, *parts)
        for kind, members in kinds.items():
            counts[kind] += int(np.count_nonzero(members))
            if kind not in first and members.any():
                index = place(block, members.shape, int(members.argmax()))
                first[kind] = describe_row(rule, index, arrays[0][index], arrays[1][index])
        if worst is not None:
            worst.measure(block, _to_measure(kinds), *parts[:2])
    return tuple(RowGroup(kind, count, first.get(kind)) for kind, count in counts.items())


def _to_measure(kinds: dict[str, Mask]) -> Mask:
    """All rows, but not those that should have stayed as they were."""
    members: Mask = ~np.logical_or(kinds.get("stray", False), kinds.get("untouched", False))
    return np.broadcast_to(members, next(iter(kinds.values())).shape)
