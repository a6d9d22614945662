# SPDX-License-Identifier: Apache-2.0
"""Compare arrays row by row and say what differs, where, and in which way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aclnn_kvcache.compare.report import Comparison
    from aclnn_kvcache.compare.rules import Array

__all__ = ["compare"]


def compare(
    actual: Array,
    expected: Array,
    rule: str = "exact",
    *,
    before: Array | None = None,
    scale: Sequence[Array] | None = None,
    max_steps: int | None = None,
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
    "int8"      int8                            integers at most `max_steps` (1) apart, any share (`max_share` 1)
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

    max_steps, max_share, rtol: limits in the place of those above, for the rules that name them.

    scale: for "mx" alone, the scales of actual and expected, and of before where it is given: float8_e8m0fnu, a last
    axis of one for every 32 numbers, the other axes as the numbers have. A row then is the numbers and their scales,
    listed as pairs of bytes.

    Raises TypeError for what is no NumPy array (a masked one is none), for different dtypes, for objects and for a
    dtype that the rule does not compare; ValueError for different shapes, for a rule that does not exist, for scales
    that are missing, for scales and limits that the rule does not use, and for limits that are none.
    """
    from aclnn_kvcache.compare.comparing import compared  # here, since most processes never compare

    limits = {"max_steps": max_steps, "max_share": max_share, "rtol": rtol}
    return compared(actual, expected, rule, before, scale, limits)
