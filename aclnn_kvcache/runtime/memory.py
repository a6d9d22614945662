# SPDX-License-Identifier: Apache-2.0
"""Device memory: buffers, and arrays that view them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import hint_for, name_of
from aclnn_kvcache.errors import ArgumentError, OutOfDeviceMemory
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.resource import Resource, destroy, make
from aclnn_kvcache.runtime.tensor_layout import TensorLayout, tensor_layout

ALIGNMENT = 32
"""Of a tensor's storage, in bytes; CANN calls anything less undefined and does not check it."""

HUGE_FIRST = 0
HBM = 1
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
MAX_BYTES = 2**63 - 1


class DeviceBuffer(Resource):
    """A block of device memory, allocated here or borrowed."""

    noun = "array"

    def __init__(self, device: Device, nbytes: int, pointer: int | None = None, owner: object = None) -> None:
        """Allocates; with ``pointer`` borrows a block that is never freed here, holding ``owner`` meanwhile.

        Raises OutOfDeviceMemory with the size asked for and the sizes free and in all.
        """
        self.nbytes = nbytes
        self.owner = owner
        made = ctypes.c_void_p(pointer)
        is_allocated = pointer is None and nbytes > 0
        with device.bound():
            super().__init__(device, partial(destroy, api="aclrtFree", made=made) if is_allocated else None)
            if is_allocated:
                _allocate(device, made, nbytes)
        self.pointer = made.value or 0

    def in_use(self) -> bool:
        return self.device.in_use(self)

    def close(self) -> None:
        """Frees the block, after waiting for queued work that uses it: aclrtFree itself does not wait."""
        self.close_after(lambda: self.device.settle(self))


def _allocate(device: Device, made: ctypes.c_void_p, nbytes: int) -> None:
    if nbytes > MAX_BYTES:
        raise ArgumentError("shape", f"an array of at most {MAX_BYTES} bytes", f"{nbytes} bytes")
    try:
        make(device, made, "aclrtMalloc", ctypes.byref(made), nbytes, HUGE_FIRST)
    except OutOfDeviceMemory as error:
        free, total = free_and_total(device)
        error.attach(detail=f"asked for {nbytes} bytes; device {device.id} has {free} free of {total}")
        raise


def free_and_total(device: Device) -> tuple[int, int]:
    """Bytes of the device's memory."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    device.call("aclrtGetMemInfo", HBM, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


class DeviceArray:
    """An array in device memory: a dense one of its own, a borrowed one, or a view.

    ``shape``, ``dtype`` and ``strides`` (in bytes) as in NumPy; ``ptr`` is the address of the first element, for
    passing on and not for the host to touch. Indexing with integers, slices, ``...`` and ``None``, and ``transpose``,
    give views, which keep the buffer alive and see the same bytes.
    """

    _layout: TensorLayout
    __slots__ = ("_layout", "buffer", "dtype", "offset", "shape", "strides")

    def __init__(
        self, buffer: DeviceBuffer, shape: Sequence[int], dtype: np.dtype[Any], strides: Sequence[int], offset: int = 0
    ) -> None:
        self.buffer = buffer
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = tuple(strides)
        self.offset = offset
        """Bytes from the start of the buffer to the first element."""

    @property
    def layout(self) -> TensorLayout:
        """How the array lies in its buffer."""
        try:
            return self._layout
        except AttributeError:
            self._layout = tensor_layout(self.shape, self.dtype, self.strides, self.offset, self.buffer.nbytes)
            return self._layout

    @property
    def ptr(self) -> int:
        self.buffer.require_open()
        return self.buffer.pointer + self.offset

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def closed(self) -> bool:
        return self.buffer.closed or self.buffer.device.closed

    def __getitem__(self, index: Any) -> DeviceArray:
        parts = index if isinstance(index, tuple) else (index,)
        for part in parts:
            is_basic = part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice))
            if not is_basic or isinstance(part, bool):
                raise ArgumentError(
                    "index", "integers, slices, ... or None", repr(part), "views cannot be indexed by arrays"
                )
        # With an ellipsis the result is always an array: a scalar would be read from the phantom.
        return self._view(self.phantom()[parts if Ellipsis in parts else (*parts, ...)])

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a DeviceArray of no dimensions has no length")
        return self.shape[0]

    # NumPy would take the object for a scalar, and "in" would compare identities.
    __array_ufunc__ = None
    __contains__ = None
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ArgumentError("comparison", "host arrays", "a DeviceArray", "compare array.numpy(), with kv.compare say")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray[Any, Any]:
        raise ArgumentError("array", "a host array", "a DeviceArray", "array.numpy() makes a host copy")

    def transpose(self, *axes: int) -> DeviceArray:
        """A view with its axes in another order, reversed if none are given."""
        return self._view(self.phantom().transpose(*axes))

    @property
    def T(self) -> DeviceArray:
        """The view with its axes reversed."""
        return self.transpose()

    def numpy(self) -> np.ndarray[Any, Any]:
        """A dense copy on the host, after waiting for queued work that uses the memory.

        Raises DeviceFaultError if that work failed, ClosedError.
        """
        self.buffer.require_open()
        with self.buffer.device.bound():
            self.buffer.device.settle(self.buffer)
            if not self.size:
                return np.empty(self.shape, self.dtype)
            low, high = layout.bounds(self.shape, self.strides)
            span = np.empty(high - 1 + self.dtype.itemsize - low, np.uint8)
            source = self.ptr + low
            self.buffer.device.call("aclrtMemcpy", address(span), span.nbytes, source, span.nbytes, DEVICE_TO_HOST)
        view = np.ndarray(self.shape, self.dtype, span, -low, self.strides)
        return np.array(view, order="C", copy=True)

    def copy_from(self, host: np.ndarray[Any, Any]) -> None:
        """Writes the values of a host array of equal shape and dtype, and any strides, into this array's memory, after
        waiting for queued work that uses it. Of a view only its own elements are written, with a copy for each dense
        run of them.

        Raises, with nothing changed, ArgumentError for anything else and for a view that has an element twice,
        DeviceFaultError if the queued work failed, ClosedError.
        """
        if not isinstance(host, np.ndarray) or isinstance(host, np.ma.MaskedArray):
            raise ArgumentError("host", "a numpy.ndarray", type(host).__name__, "nothing is converted behind your back")
        if host.shape != self.shape or host.dtype != self.dtype:
            wanted, got = (f"{name_of(a.dtype)}{list(a.shape)}" for a in (self, host))
            hint = hint_for(host.dtype, (self.dtype,)) if host.dtype != self.dtype else ""
            raise ArgumentError("host", f"shape and dtype of the device array, {wanted}", got, hint)
        if layout.overlaps_itself(self.shape, self.strides, self.dtype.itemsize):
            raise ArgumentError("array", "a view that has each element once", repr(self))
        self.buffer.require_open()
        with self.buffer.device.bound():
            self.buffer.device.settle(self.buffer)
            _write(self, host)

    def close(self) -> None:
        """Frees the memory, for all views of it, after waiting for queued work that uses it. Idempotent."""
        self.buffer.close()

    def phantom(self) -> np.ndarray[Any, Any]:
        """This array's layout, for index and overlap arithmetic."""
        return layout.phantom(self.offset, self.shape, self.strides, self.dtype)

    def _view(self, phantom: np.ndarray[Any, Any]) -> DeviceArray:
        return DeviceArray(self.buffer, phantom.shape, self.dtype, phantom.strides, layout.phantom_offset(phantom))

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"at {self.buffer.pointer + self.offset:#x}"
        return f"<DeviceArray {self.dtype.name}{list(self.shape)} strides {list(self.strides)} {state}>"


def empty(device: Device, shape: Sequence[int], dtype: np.dtype[Any]) -> DeviceArray:
    """A dense array with whatever bytes the memory holds."""
    buffer = DeviceBuffer(device, math.prod(shape) * dtype.itemsize)
    return DeviceArray(buffer, shape, dtype, [stride * dtype.itemsize for stride in layout.dense_strides(shape)])


def upload(device: Device, array: np.ndarray[Any, Any]) -> DeviceArray:
    """A dense device copy of a host array of any strides. Returns when the bytes are there."""
    result = empty(device, array.shape, array.dtype)
    _write(result, array)
    return result


def _write(array: DeviceArray, host: np.ndarray[Any, Any]) -> None:
    """Copies a host array of equal shape and dtype into the elements of the device array, and nowhere else."""
    if not array.size:
        return
    # Both are walked in the order in which the elements lie on the device.
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    forwards = tuple(slice(None, None, -1 if array.strides[axis] < 0 else 1) for axis in order)
    source = np.ascontiguousarray(np.asarray(host).transpose(order)[forwards])
    axes = [(abs(array.strides[axis]), array.shape[axis]) for axis in order if array.shape[axis] > 1]
    run = array.dtype.itemsize
    while axes and axes[-1][0] == run:
        run *= axes.pop()[1]
    first, _ = layout.bounds(array.shape, array.strides)
    starts = np.array([array.ptr + first], np.uint64)
    for stride, extent in axes:
        starts = np.add.outer(starts, stride * np.arange(extent, dtype=np.uint64)).ravel()
    with array.buffer.device.bound():
        for index, start in enumerate(starts.tolist()):
            array.buffer.device.call("aclrtMemcpy", start, run, address(source) + index * run, run, HOST_TO_DEVICE)


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
