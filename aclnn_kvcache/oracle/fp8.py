# SPDX-License-Identifier: Apache-2.0
"""FP8 arithmetic of the device where it differs from that of ml_dtypes."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

E4M3FN_MAX = np.float32(448)


def _codes() -> NDArray[np.uint8]:
    values = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    # NaN goes first: clip may warn of a signalling one.
    numbers = np.where(np.isnan(values), np.float32(0), values)
    return np.clip(numbers, -E4M3FN_MAX, E4M3FN_MAX).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


# The code of each float32 whose lower half is 0, by its upper half. A table, since ml_dtypes casts slowly.
_CODES = _codes()


def to_e4m3fn(values: NDArray[np.float32]) -> NDArray[Any]:
    """Cast float32 to float8_e4m3fn as the vector unit of Ascend 950 does for these operators.

    Round to nearest even, subnormals and the sign of zero kept; everything beyond ±448, infinities included, becomes
    ±448; every NaN becomes 0x00. (ml_dtypes makes NaN of what exceeds 464 and keeps NaN.)

    values: float32 of any shape and strides. Returns a new float8_e4m3fn array of that shape; gives no warnings.
    Raises TypeError for any other dtype: float64 would be rounded twice, to float32 and to FP8, on its way here.
    Source: the operator's cast instruction, documented as nearest even and saturating.
    """
    if values.dtype != np.float32:
        raise TypeError(f"values: expected float32, got {values.dtype}")
    bits = values.view(np.uint32)
    # The upper half has four mantissa bits more than E4M3FN; with "something follows" in its last bit it rounds alike.
    half = bits & 0xFFFF
    half += 0xFFFF  # carries, into the last bit that stays, if anything follows
    half |= bits
    half >>= 16
    result: NDArray[Any] = _CODES.take(half.astype(np.intp)).view(ml_dtypes.float8_e4m3fn)
    return result
