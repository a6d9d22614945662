# SPDX-License-Identifier: Apache-2.0
"""The memory of arrays, and which of them meet. Addresses are only computed with; nothing is read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout


class Region(NamedTuple):
    """The memory of an array: address of the first element, and ``strides`` in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Region:
        return cls(array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize)


def touching(regions: Mapping[str, Region]) -> frozenset[tuple[str, str]]:
    """The pairs of names, in either order, whose spans from the first byte to the last have a byte in common."""
    spans = []
    for name, (address, *rest) in regions.items():
        low, high = _span(*rest)
        if low < high:
            spans.append((address + low, address + high, name))
    spans.sort()
    pairs = []
    for position, (_, end, name) in enumerate(spans):
        for start, _, other in spans[position + 1 :]:
            if start >= end:
                break
            pairs += [(name, other), (other, name)]
    return frozenset(pairs)


def share_memory(a: Region, b: Region) -> bool:
    """Whether the two have a byte in common, for regions whose spans meet."""
    return _share_memory(b.address - a.address, a[1:], b[1:])


# Calls repeat their layouts, and the distances of arrays in one allocation, far more often than their addresses.
@lru_cache(maxsize=1024)
def _share_memory(distance: int, a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return layout.share_memory(_phantom(0, *a), _phantom(distance, *b))


@lru_cache(maxsize=1024)
def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    """Whether two indices reach one byte."""
    return layout.overlaps_itself(shape, strides, itemsize)


@lru_cache(maxsize=1024)
def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First byte and end, from the first element; equal for an empty array."""
    low, high = layout.bounds(shape, strides)
    return (low, high - 1 + itemsize) if low != high else (0, 0)


def _phantom(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> np.ndarray[Any, Any]:
    return layout.phantom(address, shape, strides, np.dtype((np.void, itemsize)))
