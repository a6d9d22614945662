# SPDX-License-Identifier: Apache-2.0
"""Rounding to BF16: where there is much of it by integers, for casts of ml_dtypes give the same, but slowly."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

_LARGEST = np.uint32(0x7F7F0000).view(np.float32)


def round_to_bf16(values: NDArray[np.float32], scratch: NDArray[np.float32]) -> None:
    """Round float32 in place to numbers that bfloat16 has: nearest even, too large becomes infinity, no saturation.

    scratch: an array of the same shape, whose contents are lost. Subnormals, infinities and the sign of zero are kept;
    so is NaN, unless its payload is nearly all ones (see `plain_nans`). Gives no warnings.
    """
    bits, half = values.view(np.uint32), scratch.view(np.uint32)
    # Half of the last place that stays, less one unit where that place is even; then what is below is cut off.
    np.right_shift(bits, 16, out=half)
    half &= 1
    half += 0x7FFF
    bits += half
    bits &= 0xFFFF0000


def plain_nans(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The same numbers in a new array, each NaN the usual one: a payload of ones would carry into the sign."""
    return np.where(np.isnan(values), np.float32(np.nan), values)


def to_bf16_saturating(values: NDArray[np.float32]) -> NDArray[Any]:
    """A new bfloat16 array: nearest even, infinities and all that is too large become ±the largest number, NaN 0."""
    numbers = np.where(np.isnan(values), np.float32(0), values)
    result: NDArray[Any] = np.clip(numbers, -_LARGEST, _LARGEST).astype(ml_dtypes.bfloat16)
    return result
