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

KEPT = 1024

_good: dict[tuple[Any, ...], Checked] = {}


class Exact(NamedTuple):
    """A call on certain memory."""

    key: tuple[Any, ...]
    """Equal for calls that lie in the same memory in the same way."""
    buffers: list[DeviceBuffer]


def exact(device: Device, arrays: Iterable[object], of_call: object) -> Exact | None:
    """None unless each array is an open one of this device, or None. ``of_call``: operator and attributes."""
    key: list[Any] = [of_call]
    buffers = []
    for array in arrays:
        if type(array) is DeviceArray:
            buffer = array.buffer
            if buffer.closed or buffer.device is not device:
                return None
            key.append(array.layout)
            key.append(buffer.pointer)
            buffers.append(buffer)
        elif array is None:
            key.append(None)
        else:
            return None
    return Exact(tuple(key), buffers)


def key_of(device: Device, arrays: Iterable[object], of_call: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """All that the checks of a call depend on; None unless each array is an open one of this device, or None.

    ``of_call`` is what the call is beside its arrays: operator and attributes.
    """
    key: list[Any] = [of_call]
    spans = []
    for array in arrays:
        if type(array) is DeviceArray:
            buffer = array.buffer
            if buffer.closed or buffer.device is not device:
                return None
            layout = array.layout
            low, high = layout.span
            spans.append((buffer.pointer + low, buffer.pointer + high))
            key.append(layout)
        elif array is None:
            key.append(None)
        else:
            return None
    spans.sort()
    for (_, end), (start, _) in pairwise(spans):
        if start < end:
            # Arrays that lie within one another's span may share bytes or not, by their distances.
            first = spans[0][0]
            key.append(tuple(array.ptr - first for array in arrays if array is not None))  # type: ignore[attr-defined]
            break
    return tuple(key)


def recall(key: tuple[Any, ...] | None) -> Checked | None:
    """What the checks of such a call found, if they were made."""
    return _good.get(key) if key is not None else None


def remember(key: tuple[Any, ...] | None, checked: Checked) -> None:
    """Keeps what the checks of a call found, if there was nothing wrong with it."""
    if key is not None:
        if len(_good) >= KEPT:
            _good.clear()
        _good[key] = checked


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
