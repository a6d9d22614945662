# SPDX-License-Identifier: Apache-2.0
"""The rules by which one element will do for another, and what they measure."""

from __future__ import annotations

from collections.abc import Collection
from math import isfinite
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from aclnn_kvcache.compare.report import CodeSteps, RelativeErrors, ScaledErrors
from aclnn_kvcache.dtypes import FP8_E4M3FN, FP8_E5M2, name_of

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Index = tuple[int, ...]

_FLOATS = (*map(np.dtype, (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)), FP8_E4M3FN, FP8_E5M2)


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

    def report(self, where: Index | None) -> CodeSteps | RelativeErrors | ScaledErrors:
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


class Relative:
    """Numbers with abs(actual - expected) <= rtol * abs(expected); NaN equals NaN, an infinity itself."""

    def __init__(self, rtol: float) -> None:
        self._rtol = check_rtol(rtol)
        self._compared = self._beyond = 0
        self._largest = 0.0

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        require("relative", dtype.newbyteorder("="), _FLOATS)

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


def require(rule: str, dtype: np.dtype[Any], allowed: Collection[np.dtype[Any]]) -> None:
    """Raises TypeError for a dtype that is not one of the allowed."""
    if dtype not in allowed:
        raise TypeError(f"expected: rule {rule!r} compares {', '.join(map(name_of, allowed))}, got {name_of(dtype)}")


_NUMBERS = (int, float, np.integer, np.floating)


def check_steps(max_steps: int) -> int:
    """Raises ValueError for what is no limit of steps."""
    if not (isinstance(max_steps, int | np.integer) and max_steps >= 0):
        raise ValueError(f"max_steps: expected a whole number from 0 on, got {max_steps!r}")
    return int(max_steps)


def check_share(max_share: float) -> float:
    """Raises ValueError for what is no share."""
    if not (isinstance(max_share, _NUMBERS) and 0 <= max_share <= 1):
        raise ValueError(f"max_share: expected a share from 0 to 1, got {max_share!r}")
    return float(max_share)


def check_rtol(rtol: float) -> float:
    """Raises ValueError for what is no relative tolerance."""
    if not (isinstance(rtol, _NUMBERS) and isfinite(rtol) and rtol >= 0):
        raise ValueError(f"rtol: expected a finite number from 0 on, got {rtol!r}")
    return float(rtol)
