# SPDX-License-Identifier: Apache-2.0
"""The steps of a comparison: what was given is checked, rows are sorted by kind, and elements measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aclnn_kvcache.compare.mx import Mx, Pairs, pair
from aclnn_kvcache.compare.report import WITH_BEFORE, WITHOUT_BEFORE, Comparison, Row, RowGroup
from aclnn_kvcache.compare.rows import Worst, blocks, describe_row, place, sort_rows
from aclnn_kvcache.compare.rules import Array, Exact, Mask, Relative, Rule, Tolerant
from aclnn_kvcache.compare.steps import Bf16, Fp8, Int8


def compared(
    actual: Array,
    expected: Array,
    rule: str,
    before: Array | None,
    scale: Sequence[Array] | None,
    max_steps: int,
    max_share: float | None,
    rtol: float | None,
) -> Comparison:
    """See ``compare``."""
    tolerant = _tolerant_rules(max_steps, max_share, rtol)
    rules: dict[str, Rule] = {"exact": Exact(), **tolerant}
    if not isinstance(rule, str) or rule not in rules:
        raise ValueError(f"rule: expected one of {', '.join(map(repr, rules))}, got {rule!r}")
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

    rules[rule].check_dtype(expected.dtype)
    numbers = [np.atleast_1d(np.asarray(array)) for array in (actual, expected, before) if array is not None]
    rows: Sequence[Array | Pairs] = numbers
    if rule == "mx":
        rows = pair(numbers, scale)
    elif scale is not None:
        raise ValueError(f"scale: expected None, since rule {rule!r} takes no scales")
    worst = Worst(tolerant[rule]) if rule in tolerant else None
    groups = _compare_rows(rules[rule], worst, rows)
    elements = None if worst is None else tolerant[rule].report(worst.where)
    return Comparison(rule, actual.shape, str(actual.dtype), groups, elements)


def _tolerant_rules(max_steps: int, max_share: float | None, rtol: float | None) -> dict[str, Tolerant]:
    """The rules with their own limits where none are given."""

    def share(usual: float) -> float:
        return usual if max_share is None else max_share

    return {
        "fp8": Fp8(max_steps, share(0.001)),
        "bf16": Bf16(max_steps, share(0.01)),
        "int8": Int8(max_steps, share(1)),
        "relative": Relative(1e-6 if rtol is None else rtol),
        "mx": Mx(max_steps, share(0.01), 0.01 if rtol is None else rtol),
    }


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
