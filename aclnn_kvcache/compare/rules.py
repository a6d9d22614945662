# SPDX-License-Identifier: Apache-2.0
"""The rules by which one element will do for another, and what they measure."""

from __future__ import annotations

from functools import cache
from math import isfinite
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from aclnn_kvcache.compare.report import CodeSteps, RelativeErrors
from aclnn_kvcache.dtypes import FP8_E4M3FN, FP8_E5M2, name_of

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Index = tuple[int, ...]

_FP8 = (FP8_E4M3FN, FP8_E5M2)
_FLOATS = (*map(np.dtype, (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)), *_FP8)
# Codes of one format are at most 254 apart: a distance for what has none.
_APART = 255


class Rule(Protocol):
    """Looks at elements of two arrays of one shape and dtype."""

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        """Raises TypeError for a dtype that the rule has no meaning for."""

    def accepts(self, actual: Array, expected: Array) -> Mask:
        """For each element, whether the actual one will do."""


class Tolerant(Rule, Protocol):
    """A rule that accepts elements which are not equal, and so says by how much."""

    def measure(self, actual: Array, expected: Array) -> Array:
        """The error of each element, above 0 where they are not equal; what `report` needs is added up."""

    def report(self, where: Index | None) -> CodeSteps | RelativeErrors:
        """On all that was measured; the largest error is at `where`."""


class Exact:
    """Every byte is equal: NaN equals itself, -0 differs from +0."""

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        """Any will do."""

    def accepts(self, actual: Array, expected: Array) -> Mask:
        size = actual.dtype.itemsize
        # NumPy compares plain void elements byte by byte too, but slowly.
        bits = f"u{size}" if size in (1, 2, 4, 8) else f"V{size}"
        same: Mask = actual.view(bits) == expected.view(bits)
        return same


_NUMBERS = (int, float, np.integer, np.floating)


class Fp8:
    """FP8 codes at most `max_steps` apart in the order of the numbers; any NaN equals any NaN and nothing else.

    +0 and -0 are one place in that order. An infinity equals only itself: it is no number next to the largest one.
    """

    def __init__(self, max_steps: int, max_share: float) -> None:
        if not (isinstance(max_steps, int | np.integer) and max_steps >= 0):
            raise ValueError(f"max_steps: expected a whole number from 0 on, got {max_steps!r}")
        if not (isinstance(max_share, _NUMBERS) and 0 <= max_share <= 1):
            raise ValueError(f"max_share: expected a share from 0 to 1, got {max_share!r}")
        self._limits = int(max_steps), float(max_share)
        self._counts = np.zeros(_APART + 1, np.int64)
        self._zeros = 0

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        _require("fp8", dtype, _FP8)

    def accepts(self, actual: Array, expected: Array) -> Mask:
        near: Mask = _steps(actual, expected) <= min(self._limits[0], _APART - 1)
        return near

    def measure(self, actual: Array, expected: Array) -> Array:
        steps = _steps(actual, expected)
        self._counts += np.bincount(steps.ravel(), minlength=_APART + 1)
        bits = actual.view(np.uint8), expected.view(np.uint8)
        self._zeros += int(np.count_nonzero((bits[0] != bits[1]) & ((bits[0] | bits[1]) & 0x7F == 0)))
        return steps

    def report(self, where: Index | None) -> CodeSteps:
        steps = tuple((int(distance), int(self._counts[distance])) for distance in np.flatnonzero(self._counts[:-1]))
        compared = int(self._counts.sum())
        return CodeSteps(compared, steps, int(self._counts[_APART]), self._zeros, where, *self._limits)


class Relative:
    """Numbers with abs(actual - expected) <= rtol * abs(expected); NaN equals NaN, an infinity itself."""

    def __init__(self, rtol: float) -> None:
        if not (isinstance(rtol, _NUMBERS) and isfinite(rtol) and rtol >= 0):
            raise ValueError(f"rtol: expected a finite number from 0 on, got {rtol!r}")
        self._rtol = float(rtol)
        self._compared = self._beyond = 0
        self._largest = 0.0

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        _require("relative", dtype.newbyteorder("="), _FLOATS)

    def accepts(self, actual: Array, expected: Array) -> Mask:
        return self._judge(actual, expected)[1]

    def measure(self, actual: Array, expected: Array) -> Array:
        errors, accepted = self._judge(actual, expected)
        self._compared += accepted.size
        self._beyond += accepted.size - int(np.count_nonzero(accepted))
        self._largest = max(self._largest, float(errors.max(initial=0)))
        return errors

    def report(self, where: Index | None) -> RelativeErrors:
        return RelativeErrors(self._compared, self._beyond, self._largest, where, self._rtol)

    def _judge(self, actual: Array, expected: Array) -> tuple[Array, Mask]:
        with np.errstate(all="ignore"):
            a, e = actual.astype(np.float64), expected.astype(np.float64)
            same = (a == e) | (np.isnan(a) & np.isnan(e))
            finite = np.isfinite(a) & np.isfinite(e)
            difference, size = np.abs(a - e), np.abs(e)
            accepted: Mask = same | (finite & (difference <= self._rtol * size))
            errors = np.where(same, 0, np.where(finite, difference / size, np.inf))
        return errors, accepted


def _require(rule: str, dtype: np.dtype[Any], allowed: tuple[np.dtype[Any], ...]) -> None:
    if dtype not in allowed:
        raise TypeError(f"expected: rule {rule!r} compares {', '.join(map(name_of, allowed))}, got {name_of(dtype)}")


def _steps(actual: Array, expected: Array) -> Array:
    pairs = actual.view(np.uint8).astype(np.intp) << 8 | expected.view(np.uint8)
    distances: Array = _distances(expected.dtype).take(pairs)
    return distances


@cache
def _distances(dtype: np.dtype[Any]) -> Array:
    """For each two codes of an FP8 format, at 256 * one + other, how many steps they are apart."""
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float32)
    order = np.where(codes & 0x80, -1, 1) * (codes & 0x7F).astype(np.int16)
    distances = np.abs(order[:, np.newaxis] - order)
    no_number = ~np.isfinite(values)
    same = (values[:, np.newaxis] == values) | (np.isnan(values)[:, np.newaxis] & np.isnan(values))
    distances[no_number[:, np.newaxis] | no_number] = _APART
    distances[same] = 0
    table: Array = distances.astype(np.uint8).ravel()
    return table
