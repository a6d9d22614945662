# SPDX-License-Identifier: Apache-2.0
"""Rules that count how many steps apart two numbers of a format are: "fp8", "bf16" and "int8"."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from aclnn_kvcache.compare.report import CodeSteps
from aclnn_kvcache.compare.rules import Array, Index, Mask, check_share, check_steps, require
from aclnn_kvcache.dtypes import BFLOAT16, FP8_E4M3FN, FP8_E5M2

_INT8 = np.dtype(np.int8)


class _Steps:
    """Elements at most `max_steps` apart, and at most the share `max_share` of all not equal.

    Any NaN equals any NaN and nothing else, an infinity only itself: it is no number next to the largest one. +0 and
    -0 are one place.
    """

    name: str
    dtypes: tuple[np.dtype[Any], ...]
    apart: int
    """A distance for what has none, above all others."""
    magnitude: int
    """The bits of an element but its sign; 0 where there is only one zero."""

    def __init__(self, max_steps: int, max_share: float) -> None:
        self._limits = check_steps(max_steps), check_share(max_share)
        self._counts = np.zeros(self.apart + 1, np.int64)
        self._zeros = 0

    def distances(self, actual: Array, expected: Array) -> Array:
        raise NotImplementedError

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        require(self.name, dtype, self.dtypes)

    def accepts(self, actual: Array, expected: Array) -> Mask:
        near: Mask = self.distances(actual, expected) <= min(self._limits[0], self.apart - 1)
        return near

    def measure(self, actual: Array, expected: Array) -> Array:
        distances = self.distances(actual, expected)
        self._counts += np.bincount(distances.ravel(), minlength=self.apart + 1)
        bits = actual.view(f"u{actual.itemsize}"), expected.view(f"u{expected.itemsize}")
        both_zero = (bits[0] | bits[1]) & self.magnitude == 0
        self._zeros += int(np.count_nonzero((bits[0] != bits[1]) & both_zero & (distances == 0)))
        return distances

    def report(self, where: Index | None) -> CodeSteps:
        steps = tuple((int(distance), int(self._counts[distance])) for distance in np.flatnonzero(self._counts[:-1]))
        compared = int(self._counts.sum())
        return CodeSteps(compared, steps, int(self._counts[-1]), self._zeros, where, *self._limits)


class Fp8(_Steps):
    """Codes of float8_e4m3fn or float8_e5m2, in the order of their numbers."""

    name, dtypes, apart, magnitude = "fp8", (FP8_E4M3FN, FP8_E5M2), 255, 0x7F

    def distances(self, actual: Array, expected: Array) -> Array:
        pairs = actual.view(np.uint8).astype(np.intp) << 8 | expected.view(np.uint8)
        distances: Array = _fp8_distances(expected.dtype).take(pairs)
        return distances


@cache
def _fp8_distances(dtype: np.dtype[Any]) -> Array:
    """For each two codes of an FP8 format, at 256 * one + other, how many steps they are apart."""
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float32)
    order = np.where(codes & 0x80, -1, 1) * (codes & 0x7F).astype(np.int16)
    distances = np.abs(order[:, np.newaxis] - order)
    no_number = ~np.isfinite(values)
    same = (values[:, np.newaxis] == values) | (np.isnan(values)[:, np.newaxis] & np.isnan(values))
    distances[no_number[:, np.newaxis] | no_number] = Fp8.apart
    distances[same] = 0
    table: Array = distances.astype(np.uint8).ravel()
    return table


class Bf16(_Steps):
    """Codes of bfloat16, in the order of their numbers; but what cancelled out is measured by its row.

    A matrix product has an error of the size of its terms, which may be any number of steps of a sum next to 0: a
    difference of at most 2**-16 of the row's largest expected number is never more than one step.
    """

    name, dtypes, apart, magnitude = "bf16", (BFLOAT16,), 1 << 16, 0x7FFF

    def distances(self, actual: Array, expected: Array) -> Array:
        a, e = (_order(array) for array in (actual, expected))
        distances = np.abs(a - e)
        finite = (np.abs(a) < _BF16_INFINITY) & (np.abs(e) < _BF16_INFINITY)
        both_nan = (np.abs(a) > _BF16_INFINITY) & (np.abs(e) > _BF16_INFINITY)
        with np.errstate(all="ignore"):
            a_number, e_number = (np.where(finite, x.astype(np.float64), 0) for x in (actual, expected))
        largest = np.abs(e_number).max(axis=-1, keepdims=True, initial=0)
        tiny = np.abs(a_number - e_number) <= largest * 2.0**-16
        distances = np.where(tiny, np.minimum(distances, 1), distances)
        return np.where(finite, distances, np.where((a == e) | both_nan, 0, self.apart))


_BF16_INFINITY = 0x7F80


def _order(array: Array) -> Array:
    bits = array.view(np.uint16).astype(np.int32)
    magnitude = bits & Bf16.magnitude
    return np.where(bits > Bf16.magnitude, -magnitude, magnitude)


class Int8(_Steps):
    """Integers of int8."""

    name, dtypes, apart, magnitude = "int8", (_INT8,), 256, 0

    def distances(self, actual: Array, expected: Array) -> Array:
        distances: Array = np.abs(actual.astype(np.int16) - expected)
        return distances
