# SPDX-License-Identifier: Apache-2.0
"""INT8 as the vector unit makes it of float32: by way of FP16."""

import numpy as np
from numpy.typing import NDArray


def to_int8(values: NDArray[np.float32]) -> NDArray[np.int8]:
    """Cast float32 to FP16 and that to INT8, as the vector unit of Ascend 950 does for this operator.

    Both steps round to nearest even, so that a number just above a tie may become the tie, and then the even integer:
    0.5 + 2**-20 becomes 0. What exceeds FP16 becomes an infinity, what exceeds INT8 its end, -128 or 127; NaN
    becomes 0.

    values: float32 of any shape and strides. Returns a new int8 array of that shape; gives no warnings.
    """
    with np.errstate(all="ignore"):
        halves = values.astype(np.float16).astype(np.float32)
    numbers = np.where(np.isnan(halves), np.float32(0), np.rint(halves))
    return np.clip(numbers, np.float32(-128), np.float32(127)).astype(np.int8)
