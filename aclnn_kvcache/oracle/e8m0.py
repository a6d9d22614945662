# SPDX-License-Identifier: Apache-2.0
"""E8M0 scales, powers of two: byte b stands for 2**(b - 127), and 0xFF for NaN."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

_INFINITY = 0x7F800000
_NAN = 0xFF


def to_scales(largest: NDArray[np.float32]) -> NDArray[Any]:
    """The scale of each block from the largest abs of its numbers: the least power of two that takes it to 448 at most.

    That is 2**max(-127, ceil(log2(largest / 448))), byte 0 for an all-zero block too, and 0xFF where the largest is an
    infinity or NaN. Found from the bits, as the device finds it, with one surprise: the number right above
    448 * 2**-127 still gets byte 0.

    largest: float32, not negative (no -0 either). Returns a new float8_e8m0fnu array of that shape.
    """
    bits = largest.view(np.uint32)
    # 448 is 1.75 * 2**8: a mantissa above 1.75 carries into the exponent.
    finite = np.where(bits > 0x04600001, ((bits + 0x1FFFFF) >> 23) - 8, 0)
    result: NDArray[Any] = np.where(bits < _INFINITY, finite, _NAN).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    return result


def reciprocals(scales: NDArray[Any]) -> NDArray[np.float32]:
    """One over each of the scales that `to_scales` gives, exact in float32; NaN for NaN."""
    codes = scales.view(np.uint8)
    powers = ((254 - codes.astype(np.uint32)) << 23).view(np.float32)
    return np.where(codes == _NAN, np.float32(np.nan), powers)
