# SPDX-License-Identifier: Apache-2.0
"""Compare arrays row by row and say what differs, where, and in which way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aclnn_kvcache.compare.mx import Mx, Pairs, pair
from aclnn_kvcache.compare.report import (
    WITH_BEFORE,
    WITHOUT_BEFORE,
    CodeSteps,
    Comparison,
    RelativeErrors,
    Row,
    RowGroup,
    ScaledErrors,
)
from aclnn_kvcache.compare.rows import Worst, blocks, describe_row, place, sort_rows
from aclnn_kvcache.compare.rules import Array, Exact, Mask, Relative, Rule, Tolerant
from aclnn_kvcache.compare.steps import Bf16, Fp8, Int8

__all__ = ["CodeSteps", "Comparison", "RelativeErrors", "Row", "RowGroup", "ScaledErrors", "compare"]


def compare(
    actual: Array,
    expected: Array,
    rule: str = "exact",
    *,
    before: Array | None = None,
    scale: Sequence[Array] | None = None,
    max_steps: int = 1,
    max_share: float | None = None,
    rtol: float | None = None,
) -> Comparison:
    """Compare two arrays of one shape and dtype row by row, a row being the last axis.

    Any shape (0-d and 1-d arrays are one row, empty ones have none), any strides, any dtype without objects. To see
    the gaps between the rows of a padded view, pass the base arrays.

    ==========  ==============================  =======================================================================
    rule        dtypes                          accepts
    ==========  ==============================  =======================================================================
    "exact"     any                             every byte equal
    "fp8"       float8_e4m3fn, float8_e5m2      codes at most `max_steps` (1) apart, at most the share `max_share`
                                                (0.001) of all elements not equal
    "bf16"      bfloat16                        as "fp8", share 0.01; a difference of at most 2**-16 of the row's
                                                largest number, as sums that cancel out have, is one step at most
    "int8"      int8                            integers at most `max_steps` (1) apart, any share
    "relative"  floating-point ones             abs(actual - expected) <= `rtol` (1e-6) * abs(expected)
    "mx"        float8_e4m3fn, with `scale`     number * scale at most `max_steps` (1) of the coarser side apart, at
                                                most the share `max_share` (0.01) beyond `rtol` (0.01); where a scale
                                                is 0xFF both bytes equal
    ==========  ==============================  =======================================================================

    A single element may be ten times the share: with "fp8" one in a head row passes. NaN equals NaN, an infinity
    itself, +0 equals -0 (rules by steps count them). The result's `elements` says what a tolerant rule measured:
    histogram or largest error, and its place; with "mx" also how many scale bytes are equal, which decides nothing.

    before: the array as it was before the call; then the report tells rows that should have changed from rows that
    should not, and the latter must have kept every byte, whatever the rule, and count in no histogram or share.

    scale: for "mx" alone, the scales of actual and expected, and of before where it is given: float8_e8m0fnu, a last
    axis of one for every 32 numbers, the other axes as the numbers have. A row then is the numbers and their scales,
    listed as pairs of bytes.

    Raises TypeError for what is no NumPy array (a masked one is none), for different dtypes, for objects and for a
    dtype that the rule does not compare; ValueError for different shapes, for a rule that does not exist, for scales
    that are missing or not asked for, and for limits that are none.
    """
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
