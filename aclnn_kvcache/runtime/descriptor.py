# SPDX-License-Identifier: Apache-2.0
"""aclTensor descriptors of device arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import BY_DTYPE
from aclnn_kvcache.errors import ArgumentError, OutOfHostMemory
from aclnn_kvcache.explain.failure import check_native
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

    noun = "descriptor"
    on_host = True

    def __init__(self, device: Device, arguments: Sequence[Any]) -> None:
        """Raises ArgumentError for an array that reaches outside its memory: aclCreateTensor would take it."""
        self.values = list(arguments)
        rows = [(maker, _rows(maker, arguments)) for maker in MAKERS]
        made: dict[str, list[int | None]] = {maker.destroy: [] for maker in MAKERS}
        super().__init__(device, lambda owner: _destroy(owner, made))
        for maker, positions_and_arguments in rows:
            positions, columns = positions_and_arguments
            handles = made[maker.destroy]
            # One step of the interpreter: an interrupt comes before or after all of them and loses none.
            handles.extend(map(getattr(device.library, maker.create), *columns) if positions else ())
            if None in handles:
                raise OutOfHostMemory(f"{maker.create} returned NULL: host memory is exhausted")
            for position, handle in zip(positions, handles, strict=True):
                self.values[position] = handle


class Maker(NamedTuple):
    """How arguments of a Python type become native objects."""

    kind: type
    create: str
    destroy: str
    describe: Callable[[Any], tuple[Any, ...]]
    """The arguments of ``create`` for one object."""


def _rows(maker: Maker, arguments: Sequence[Any]) -> tuple[list[int], list[tuple[Any, ...]]]:
    """Positions of what the maker makes, and the arguments for all of them, column by column."""
    positions = [position for position, argument in enumerate(arguments) if isinstance(argument, maker.kind)]
    return positions, list(zip(*(maker.describe(arguments[position]) for position in positions), strict=True))


def _destroy(device: Device, made: dict[str, list[int | None]]) -> None:
    worst: dict[str, int] = {}
    for api, handles in made.items():
        worst[api] = max(map(getattr(device.library, api), filter(None, handles)), default=0)
        handles.clear()
    for api, status in worst.items():  # only now: one that cannot be destroyed must not keep the others
        check_native(device.library, status, api)


def _describe_tensor(array: DeviceArray) -> tuple[Any, ...]:
    array.buffer.require_open()
    made = _layout(array.shape, array.strides, array.offset, array.buffer.nbytes, array.dtype)
    return (*made, array.buffer.pointer or None)


def _describe_int_array(values: tuple[int, ...]) -> tuple[Any, ...]:
    return (ctypes.c_int64 * len(values))(*values), len(values)


MAKERS = (
    Maker(DeviceArray, "aclCreateTensor", "aclDestroyTensor", _describe_tensor),
    Maker(tuple, "aclCreateIntArray", "aclDestroyIntArray", _describe_int_array),
)


@lru_cache(maxsize=4096)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int, nbytes: int, dtype: np.dtype[Any]
) -> tuple[Any, ...]:
    """The arguments of aclCreateTensor in front of the address, which depend on the layout alone, ready to pass."""
    itemsize = dtype.itemsize
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
    dims = ctypes.c_int64 * len(shape)
    storage_dims = (ctypes.c_int64 * 1)(storage)
    return dims(*shape), len(shape), BY_DTYPE[dtype].acl_value, dims(*steps), start, FORMAT_ND, storage_dims, 1
