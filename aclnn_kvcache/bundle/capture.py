# SPDX-License-Identifier: Apache-2.0
"""Where the arrays of a call lie: storages, and each array's place in one. Arrays that share memory share a storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.bundle.manifest import DEVICE, DTYPE_NAMES, HOST, Storage, Tensor
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray

Array = Any  # np.ndarray or DeviceArray

HOST_ALIGNMENT, DEVICE_ALIGNMENT = 16, 512
"""A storage starts at a multiple of this, so that offsets are whole elements, and on the device addresses are as
aligned as they were."""


class NotRecordable(Exception):
    """Why a call cannot be described by a manifest."""


class Reach(NamedTuple):
    """The bytes that an array reaches, by address; on the device from a multiple of the alignment on."""

    name: str
    place: str
    low: int
    high: int
    first: int
    """Address of the first element."""
    array: Array


class Window(NamedTuple):
    """The memory of one storage."""

    start: int
    storage: Storage
    read: Callable[[], np.ndarray[Any, Any]]
    """A copy of its bytes."""


class Layout(NamedTuple):
    tensors: dict[str, Tensor | None]
    windows: dict[str, Window]

    @property
    def storages(self) -> dict[str, Storage]:
        return {name: window.storage for name, window in self.windows.items()}


def layout_of(device: Device, arrays: Mapping[str, Array | None]) -> Layout:
    """Describes the arrays of a call. Reads no element. Raises NotRecordable for what is no array of this session, or
    of a dtype that CANN has not.

    A storage has the name of the first array that lies in it.
    """
    reaches = [_reach(device, name, array) for name, array in arrays.items() if array is not None]
    tensors: dict[str, Tensor | None] = dict.fromkeys(arrays)
    windows: dict[str, Window] = {}
    order = list(arrays)
    groups = [sorted(group, key=lambda reach: order.index(reach.name)) for group in _groups(reaches)]
    for group in sorted(groups, key=lambda group: order.index(group[0].name)):
        name = group[0].name
        windows[name] = window = _window(group)
        tensors |= {reach.name: _tensor(reach, name, window.start) for reach in group}
    return Layout(tensors, windows)


def _reach(device: Device, name: str, array: Array) -> Reach:
    if isinstance(array, DeviceArray):
        if array.buffer.device is not device:
            raise NotRecordable(f"{name} is an array of another session")
        first, place = array.ptr, DEVICE
    elif isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray):
        first, place = int(array.__array_interface__["data"][0]), HOST
    else:
        raise NotRecordable(f"{name} is no array but {type(array).__name__}")
    if array.dtype not in DTYPE_NAMES:
        raise NotRecordable(f"{name} has dtype {array.dtype}, which CANN has not")
    low, high = layout.bounds(array.shape, array.strides, first)
    if low == high:
        return Reach(name, place, low, low, first, array)
    if place == DEVICE:  # memory of somebody else may start anywhere
        low = max(low - low % DEVICE_ALIGNMENT, array.buffer.pointer)
    return Reach(name, place, low, high - 1 + array.dtype.itemsize, first, array)


def _groups(reaches: list[Reach]) -> Iterator[list[Reach]]:
    """The arrays by storage: those whose memory overlaps, directly or by way of another."""
    for place in (HOST, DEVICE):
        group: list[Reach] = []
        end = -1
        for reach in sorted((r for r in reaches if r.place == place), key=lambda r: (r.low, r.high)):
            if group and reach.low >= end:
                yield group
                group = []
            group.append(reach)
            end = max(end, reach.high)
        if group:
            yield group


def _window(group: list[Reach]) -> Window:
    place = group[0].place
    low, high = min(reach.low for reach in group), max(reach.high for reach in group)
    if low == high:
        return Window(low, Storage(place, 0), lambda: np.empty(0, np.uint8))
    start = low - low % HOST_ALIGNMENT if place == HOST else low
    read = _read_host if place == HOST else _read_device
    return Window(start, Storage(place, high - start), partial(read, group, start, low, high))


def _read_device(group: list[Reach], start: int, low: int, high: int) -> np.ndarray[Any, Any]:
    """Waits for queued work that uses the memory."""
    buffers = [reach.array.buffer for reach in group]
    for buffer in buffers:
        buffer.device.settle(buffer)
    offset = low - buffers[0].pointer
    return DeviceArray(buffers[0], (high - low,), np.dtype(np.uint8), (1,), offset).numpy()


class _Memory:
    def __init__(self, owner: object, address: int, nbytes: int) -> None:
        self.owner = owner
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, True)}


def _read_host(group: list[Reach], start: int, low: int, high: int) -> np.ndarray[Any, Any]:
    """Zeros up to the first byte that an array reaches: what lies there is nobody's."""
    data = np.zeros(high - start, np.uint8)
    data[low - start :] = np.asarray(_Memory(group, low, high - low))
    return data


def _tensor(reach: Reach, storage: str, start: int) -> Tensor:
    array, size = reach.array, reach.array.dtype.itemsize
    for what, count in (("offset", reach.first - start), *(("stride", stride) for stride in array.strides)):
        if count % size:
            raise NotRecordable(f"{reach.name} has an {what} of {count} bytes, which is no multiple of {size}")
    strides = tuple(stride // size for stride in array.strides)
    writable = not isinstance(array, np.ndarray) or array.flags.writeable
    offset = (reach.first - start) // size
    return Tensor(array.shape, DTYPE_NAMES[array.dtype], strides, offset, storage, writable=writable)
