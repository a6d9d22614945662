# SPDX-License-Identifier: Apache-2.0
"""aclTensor descriptors of device arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import BY_DTYPE
from aclnn_kvcache.errors import ArgumentError, check
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.runtime.resource import Resource

FORMAT_ND = 2
ALIGNMENT = 32
"""Of a tensor's storage, in bytes; CANN calls anything less undefined and does not check it."""


class Descriptors(Resource):
    """The native arguments of one call, made of device arrays (aclTensor) and tuples of integers (aclIntArray).

    ``values`` has them in the order given; None, text and numbers are passed on as they are. They own no device memory.
    """

    on_host = True

    def __init__(self, device: Device, arguments: Sequence[Any]) -> None:
        """Raises ArgumentError for an array that reaches outside its memory: aclCreateTensor would take it."""
        layouts = [_layout_of(argument) if isinstance(argument, DeviceArray) else None for argument in arguments]
        self.values: list[Any] = []
        made: list[tuple[str, int]] = []
        super().__init__(device, lambda owner: _destroy(owner, made))
        for argument, layout_of_it in zip(arguments, layouts, strict=True):
            if layout_of_it is not None:
                made.append(("aclDestroyTensor", _create_tensor(device, argument, layout_of_it)))
            elif isinstance(argument, tuple):
                made.append(("aclDestroyIntArray", _create_int_array(device, argument)))
            else:
                self.values.append(argument)
                continue
            self.values.append(made[-1][1])


class _Layout:
    """The ctypes arguments of aclCreateTensor that depend on the layout alone, ready to pass."""

    __slots__ = ("dims", "offset", "rank", "storage", "strides")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, storage: int) -> None:
        self.rank = len(shape)
        self.dims = (ctypes.c_int64 * self.rank)(*shape)
        self.strides = (ctypes.c_int64 * self.rank)(*strides)
        self.offset = offset
        self.storage = (ctypes.c_int64 * 1)(storage)


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, nbytes: int, itemsize: int) -> _Layout:
    for what, value in (("offset", offset), *(("stride", stride) for stride in strides)):
        if value % itemsize:
            raise ArgumentError(what, f"a multiple of the item size of {itemsize} bytes", f"{value} bytes")
    steps = layout.canonical_strides(shape, [stride // itemsize for stride in strides])
    start, storage = offset // itemsize, nbytes // itemsize
    low, high = layout.bounds(shape, steps, start)
    if low != high and (low < 0 or high > storage):
        raise ArgumentError(
            "array",
            f"every element inside its memory of {storage} elements",
            f"elements {low} to {high - 1} (shape {list(shape)}, strides {list(steps)} from element {start})",
        )
    if any(stride < 0 for stride in steps):
        raise ArgumentError("array", "strides that are not negative", f"{list(steps)}", "CANN defines no others")
    return _Layout(shape, steps, start, storage)


def _layout_of(array: DeviceArray) -> _Layout:
    array.buffer.require_open()
    if array.buffer.pointer % ALIGNMENT:
        raise ArgumentError(
            "array",
            f"memory that starts at a multiple of {ALIGNMENT} bytes",
            f"{array.buffer.pointer:#x}",
            "borrow the whole allocation and slice it",
        )
    return _layout(array.shape, array.strides, array.offset, array.buffer.nbytes, array.dtype.itemsize)


def _create_tensor(device: Device, array: DeviceArray, made: _Layout) -> int:
    return _require(
        "aclCreateTensor",
        device.library.aclCreateTensor(
            made.dims,
            made.rank,
            BY_DTYPE[array.dtype].acl_value,
            made.strides,
            made.offset,
            FORMAT_ND,
            made.storage,
            1,
            array.buffer.pointer or None,
        ),
    )


def _create_int_array(device: Device, values: tuple[int, ...]) -> int:
    array = (ctypes.c_int64 * len(values))(*values)
    return _require("aclCreateIntArray", device.library.aclCreateIntArray(array, len(values)))


def _require(api: str, handle: int | None) -> int:
    if not handle:
        raise MemoryError(f"{api} returned NULL: host memory is exhausted")
    return handle


def _destroy(device: Device, made: Sequence[tuple[str, int]]) -> None:
    for api, handle in made:
        check(getattr(device.library, api)(handle), api)
