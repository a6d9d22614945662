# SPDX-License-Identifier: Apache-2.0
"""Shape, stride and offset arithmetic: bounds, contiguity, overlap. Counts elements unless it says bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Ints = tuple[int, ...]


def dense_strides(shape: Sequence[int]) -> Ints:
    """Row-major strides of the shape; the last one is 1."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def canonical_strides(shape: Sequence[int], strides: Sequence[int]) -> Ints:
    """The strides with those of length-1 axes made what a dense tensor around the next axis would have.

    Such a stride is never walked, and NumPy leaves anything in it (0 after ``[..., None]``), but scatter looks at the
    last one (phase_1 view path) to choose between the cache itself and a whole-cache copy.
    """
    result = list(strides)
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] == 1:
            last = axis == len(shape) - 1
            result[axis] = 1 if last else result[axis + 1] * max(shape[axis + 1], 1)
    return tuple(result)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Row-major and without gaps; axes of extent 1 do not count, nor does an empty shape.

    As CANN asks it of shapes that no array has: extents below 0 are multiplied in, and products are those of 64 bits.
    """
    if 0 in shape:
        return True
    want = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1:
            if (stride - want) % 2**64:
                return False
            want *= extent
    return True


def bounds(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> tuple[int, int]:
    """First element touched, and one past the last; equal for an empty shape."""
    if 0 in shape:
        return offset, offset
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0) + 1


def overlaps_itself(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether two indices reach one byte, for strides in bytes. Exact where NumPy can tell, else True."""
    axes = sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1)
    if 0 in shape or not axes:
        return False
    reach = itemsize
    for stride, extent in axes:
        if stride < reach:
            break
        reach = stride * (extent - 1) + reach
    else:
        return False
    low, high = bounds(shape, strides)
    if math.prod(shape) * itemsize > high - 1 + itemsize - low:  # more elements than room
        return True
    walked = [(s, n) for s, n in zip(strides, shape, strict=True) if n > 1]
    return any(_revisits(walked[axis:], itemsize) for axis in range(len(walked)))


def _revisits(axes: Sequence[tuple[int, int]], itemsize: int) -> bool:
    """Whether some step along the first axis, with any steps along those behind it, comes back to the same bytes."""
    strides, extents = zip(*axes, strict=True)
    shape = (extents[0] - 1, *(2 * extent - 1 for extent in extents[1:]))
    start = strides[0] - sum((extent - 1) * stride for stride, extent in axes[1:])
    item = np.dtype((np.void, itemsize))
    try:
        steps = phantom(start, shape, strides, item)
    except (ValueError, OverflowError):  # NumPy has no array of that size, or no address that far: as above
        return True
    return share_memory(steps, phantom(0, (1,), (itemsize,), item))


def share_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the two arrays have an element's bytes in common. Exact where NumPy can tell, else True."""
    try:
        return bool(np.shares_memory(a, b, max_work=_MAX_WORK))
    except (RuntimeError, OverflowError):  # too hard: taken as overlapping, the safe side
        return True


class _Phantom:
    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


_MAX_WORK: Any = 100_000  # candidate solutions, a tenth of a second; NumPy's stubs know only 0 and -1
_BASE = 1 << 62


def phantom(address: int, shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array object (strides in bytes) over memory that is never read: for NumPy's index and overlap arithmetic.

    Device addresses are not the host's to touch; ``shares_memory`` and basic indexing only compute with them, as long
    as an index leaves an array: one that ends in a scalar would read it.
    """
    interface = {
        "version": 3,
        "shape": tuple(shape),
        "strides": tuple(strides),
        "typestr": f"|V{dtype.itemsize}",
        "data": (_BASE + address, False),
    }
    return np.asarray(_Phantom(interface))


def phantom_offset(view: np.ndarray[Any, Any]) -> int:
    """The address of a phantom's (or of a view of one) first element."""
    return int(view.__array_interface__["data"][0]) - _BASE
