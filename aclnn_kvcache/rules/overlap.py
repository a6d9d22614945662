# SPDX-License-Identifier: Apache-2.0
"""Rules about memory: what an operator writes shares no byte with anything else it uses, nor with itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.rules.finding import Finding


class Region(NamedTuple):
    """The memory of an array: address of the first element, and ``strides`` in bytes. It is never read."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Region:
        return cls(array.__array_interface__["data"][0], array.shape, array.strides, array.itemsize)


def check_overlap(regions: Mapping[str, Region], written: Sequence[str]) -> Iterator[Finding]:
    """Findings for the written arrays."""
    for position, name in enumerate(written):
        region = regions[name]
        if _overlaps_itself(region.shape, region.strides, region.itemsize):
            message = f"{name} reaches some bytes through more than one index (strides of {list(region.strides)} bytes)"
            yield Finding("self_overlap", (name,), f"{message}; pass a real array")
        for other in regions:
            if other not in written[: position + 1] and _share_memory(region, regions[other]):
                message = f"{name}, which is written, shares memory with {other}; the result would depend on the order"
                yield Finding("overlap", (name, other), message)


def _share_memory(a: Region, b: Region) -> bool:
    (a_low, a_high), (b_low, b_high) = _span(*a[1:]), _span(*b[1:])
    if a.address + a_high <= b.address + b_low or b.address + b_high <= a.address + a_low:
        return False
    return layout.share_memory(_phantom(*a), _phantom(*b))


# Calls repeat their layouts far more often than their addresses.
@lru_cache(maxsize=1024)
def _overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    return layout.overlaps_itself(_phantom(0, shape, strides, itemsize))


@lru_cache(maxsize=1024)
def _span(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """First byte and end, from the first element; equal for an empty array."""
    low, high = layout.bounds(shape, strides)
    return (low, high - 1 + itemsize) if low != high else (0, 0)


def _phantom(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> np.ndarray[Any, Any]:
    return layout.phantom(address, shape, strides, np.dtype((np.void, itemsize)))
