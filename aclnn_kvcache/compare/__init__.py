# SPDX-License-Identifier: Apache-2.0
"""Compare arrays row by row and say what differs, where, and in which way."""

from __future__ import annotations

import numpy as np

from aclnn_kvcache.compare.report import (
    WITH_BEFORE,
    WITHOUT_BEFORE,
    CodeSteps,
    Comparison,
    RelativeErrors,
    Row,
    RowGroup,
)
from aclnn_kvcache.compare.rows import Worst, blocks, describe_row, place, sort_rows
from aclnn_kvcache.compare.rules import Array, Exact, Fp8, Mask, Relative, Rule, Tolerant

__all__ = ["CodeSteps", "Comparison", "RelativeErrors", "Row", "RowGroup", "compare"]


def compare(
    actual: Array,
    expected: Array,
    rule: str = "exact",
    *,
    before: Array | None = None,
    max_steps: int = 1,
    max_share: float = 0.001,
    rtol: float = 1e-6,
) -> Comparison:
    """Compare two arrays of one shape and dtype row by row, a row being the last axis.

    Any shape (0-d and 1-d arrays are one row, empty ones have none), any strides, any dtype without objects. To see
    the gaps between the rows of a padded view, pass the base arrays.

    rule: "exact", every byte is equal.
    "fp8", for float8_e4m3fn and float8_e5m2: codes at most `max_steps` apart, and at most the share `max_share` of
    all elements not equal (a single one may be ten times that: one in a head row passes). +0 and -0 are equal but
    counted, any NaN equals any NaN, an infinity itself. The result's `elements` has the histogram of distances.
    "relative", for floating-point dtypes: abs(actual - expected) <= rtol * abs(expected); NaN equals NaN, an infinity
    itself, a zero any zero. The result's `elements` has the largest error and its place.

    before: the array as it was before the call; then the report tells rows that should have changed from rows that
    should not, and the latter must have kept every byte, whatever the rule, and count in no histogram or share.

    Raises TypeError for what is no NumPy array (a masked one is none), for different dtypes, for objects and for a
    dtype that the rule does not compare; ValueError for different shapes, for a rule that does not exist and for
    limits that are none.
    """
    tolerant: dict[str, Tolerant] = {"fp8": Fp8(max_steps, max_share), "relative": Relative(rtol)}
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
    rows = [np.atleast_1d(np.asarray(array)) for array in (actual, expected, before) if array is not None]
    worst = Worst(tolerant[rule]) if rule in tolerant else None
    groups = _compare_rows(rules[rule], worst, rows)
    elements = None if worst is None else tolerant[rule].report(worst.where)
    return Comparison(rule, actual.shape, str(actual.dtype), groups, elements)


def _compare_rows(rule: Rule, worst: Worst | None, arrays: list[Array]) -> tuple[RowGroup, ...]:
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
