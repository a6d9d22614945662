# SPDX-License-Identifier: Apache-2.0
"""Native objects made of arguments: aclTensor of device arrays, aclIntArray of tuples of integers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from aclnn_kvcache.errors import OutOfHostMemory
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.runtime.resource import Resource

Key: TypeAlias = "tuple[Any, int | None, int]"
"""What is described, the address of its memory, and its place in the list of arguments."""

KEPT = 1024
"""Objects of one set, after which it starts anew."""


class Descriptors(Resource):
    """Native objects by what they describe, made once and kept for the calls that follow. They own no device memory.

    Each place in the list of arguments has its own, even for one array twice. CANN writes into the descriptors of
    outputs while it sizes a call: a set belongs to one stream, whose lock is held from the lookup to the end of the
    call.
    """

    noun = "descriptor"
    on_host = True

    def __init__(self, device: Device) -> None:
        self._handles: dict[Key, int] = {}
        self.calls: dict[object, Any] = {}
        """Calls that were made with them, by keys of their own; gone when the handles are."""
        self._made: dict[str, list[int | None]] = {maker.destroy: [] for maker in (TENSOR, INT_ARRAY)}
        made = self._made
        super().__init__(device, lambda owner: _destroy(owner, made))

    def native(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments with native objects in place of arrays and tuples.

        Raises ArgumentError for an array that reaches outside its memory.
        """
        handles, values = self._handles, list(arguments)
        if len(handles) > KEPT or len(self.calls) > KEPT:
            handles.clear()
            self.calls.clear()
            _destroy(self.device, self._made)
        for position, argument in enumerate(values):
            key: Key
            if type(argument) is DeviceArray:
                key = (argument.layout, argument.buffer.pointer, position)
                values[position] = handles.get(key) or self._make(TENSOR, key)
            elif type(argument) is tuple:
                key = (argument, None, position)
                values[position] = handles.get(key) or self._make(INT_ARRAY, key)
        return values

    def _make(self, maker: Maker, key: Key) -> int:
        made = self._made[maker.destroy]
        create = getattr(self.device.library, maker.create)
        arguments = [maker.describe(key)]
        # One step of the interpreter: an interrupt comes before or after it and loses nothing.
        made.extend(map(create, *zip(*arguments, strict=True)))
        handle = made[-1]
        if handle is None:
            made.pop()
            raise OutOfHostMemory(f"{maker.create} returned NULL: host memory is exhausted")
        self._handles[key] = handle
        return handle


class Maker(NamedTuple):
    """How a native object is made of its key."""

    create: str
    destroy: str
    describe: Callable[[Key], Iterable[Any]]
    """The arguments of ``create``."""


def _destroy(device: Device, made: dict[str, list[int | None]]) -> None:
    worst: dict[str, int] = {}
    for api, handles in made.items():
        # One step of the interpreter: each handle is off the list before it is destroyed, and none is destroyed twice.
        taken = filter(None, map(handles.pop, repeat(-1, len(handles))))
        worst[api] = max(map(getattr(device.library, api), taken), default=0)
    for api, status in worst.items():  # only now: one that cannot be destroyed must not keep the others
        check_native(device.library, status, api)


def _describe_tensor(key: Key) -> tuple[Any, ...]:
    layout, pointer, _ = key
    return (*layout.create_arguments, pointer or None)


def _describe_int_array(key: Key) -> tuple[Any, ...]:
    values = key[0]
    return (ctypes.c_int64 * len(values))(*values), len(values)


TENSOR = Maker("aclCreateTensor", "aclDestroyTensor", _describe_tensor)
INT_ARRAY = Maker("aclCreateIntArray", "aclDestroyIntArray", _describe_int_array)
