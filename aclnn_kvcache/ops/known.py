# SPDX-License-Identifier: Apache-2.0
"""Calls on device arrays that were made or checked before: memory repeats, and the layouts and distances that the rules
look at do so even more."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from aclnn_kvcache.launch import Call, relaunch
from aclnn_kvcache.ops.arguments import Checked
from aclnn_kvcache.ops.failure import Failing
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray, DeviceBuffer
from aclnn_kvcache.runtime.stream import Stream
from aclnn_kvcache.runtime.tensor_layout import TensorLayout

KEPT = 1024

_good: dict[tuple[Any, ...], Checked] = {}


class Exact(NamedTuple):
    """A call on certain memory."""

    key: tuple[Any, ...]
    """Equal for calls that lie in the same memory in the same way."""
    of_call: object
    layouts: list[TensorLayout | None]
    buffers: list[DeviceBuffer]


def exact(device: Device, arrays: Iterable[object], of_call: object) -> Exact | None:
    """None unless each array is an open one of this device, or None. ``of_call`` is what the call is beside its arrays:
    operator, revision and attributes."""
    layouts: list[TensorLayout | None] = []
    buffers = []
    for array in arrays:
        if type(array) is DeviceArray:
            buffer = array.buffer
            if buffer.closed or buffer.device is not device:
                return None
            layouts.append(array.layout)
            buffers.append(buffer)
        elif array is None:
            layouts.append(None)
        else:
            return None
    return Exact((of_call, *layouts, *[buffer.pointer for buffer in buffers]), of_call, layouts, buffers)


def key_of(call: Exact) -> tuple[Any, ...]:
    """All that the checks of a call depend on: layouts, and distances where they matter."""
    pointers = [buffer.pointer for buffer in call.buffers]
    key = (call.of_call, *call.layouts)
    given = [layout.span for layout in call.layouts if layout is not None]
    spans = sorted((pointer + low, pointer + high) for pointer, (low, high) in zip(pointers, given, strict=True))
    if all(end <= start for (_, end), (start, _) in pairwise(spans)):
        return key
    # Arrays that lie within one another's span may share bytes or not, by their distances.
    return (*key, *[pointer - pointers[0] for pointer in pointers])


def recall(call: Exact | None) -> Checked | None:
    """What the checks of such a call found, if they were made."""
    return _good.get(key_of(call)) if call is not None else None


def remember(call: Exact | None, checked: Checked) -> None:
    """Keeps what the checks of a call found, if there was nothing wrong with it."""
    if call is not None:
        if len(_good) >= KEPT:
            _good.clear()
        _good[key_of(call)] = checked


def relaunched(device: Device, contract: Contract, stream: Stream, call: Exact) -> bool:
    """Makes the call again if the stream made it before; False if it did not."""
    with stream.lock:  # between the look-up and the launch nobody may destroy the descriptors
        before: Call | None = stream.descriptors.calls.get(call.key)
        if before is None:
            return False
        failing = Failing(device.library, contract.api, before.described)
        with failing:
            relaunch(before, stream, call.buffers)
    if device.blocking:
        with failing:
            stream.synchronize()
    return True
