# SPDX-License-Identifier: Apache-2.0
"""Events: marks in a stream that another stream, or the host, can wait for."""

from __future__ import annotations

import ctypes
import math
import weakref
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from numbers import Real
from typing import TYPE_CHECKING

from aclnn_kvcache.errors import ArgumentError, DeviceFaultError, SynchronizeTimeoutError
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.resource import Resource, destroy, make

if TYPE_CHECKING:
    from aclnn_kvcache.runtime.stream import Stream

SYNC, TIME_LINE = 0x1, 0x8
SLICES = (100, 200, 400, 1000)
"""Milliseconds of the native waits that make up one wait; the last ones are all alike."""

COMPLETE = 1  # of aclrtEventRecordedStatus, the one status enum where 0 means "not ready"


class Event(Resource):
    """An event that can be recorded again and again; the latest record counts."""

    noun = "event"
    close_order = 1

    def __init__(self, device: Device) -> None:
        made = ctypes.c_void_p()
        self._recorded_in: weakref.ref[Stream] | None = None
        with device.bound():
            super().__init__(device, partial(destroy, api="aclrtDestroyEvent", made=made))
            make(device, made, "aclrtCreateEventExWithFlag", ctypes.byref(made), SYNC | TIME_LINE)
        self.handle = made.value

    def record(self, stream: Stream) -> None:
        """Marks the end of what is queued on the stream now."""
        self.require_open()
        if getattr(stream, "noun", None) != "stream":
            raise ArgumentError("stream", "a Stream", type(stream).__name__)
        stream.require_open()
        stream.retain(self)
        self.device.call("aclrtRecordEvent", self.handle, stream.handle)
        self._recorded_in = weakref.ref(stream)

    def query(self) -> bool:
        """Whether the latest record has been passed; True for an event that was never recorded."""
        self.require_open()
        status = ctypes.c_int()
        self.device.call("aclrtQueryEventStatus", self.handle, ctypes.byref(status))
        return status.value == COMPLETE

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits, at most ``timeout`` seconds. Raises SynchronizeTimeoutError, DeviceFaultError."""
        self.require_open()
        with self.device.bound():
            try:
                wait(self.device, "aclrtSynchronizeEventWithTimeout", self.handle, milliseconds(timeout))
            except DeviceFaultError as error:
                if self._recorded_in is not None and (stream := self._recorded_in()) is not None:
                    stream.blame(error)
                raise

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from the record of ``start`` to this one's; both must have been passed."""
        self.require_open()
        require_event("start", start)
        result = ctypes.c_float()
        self.device.call("aclrtEventElapsedTime", ctypes.byref(result), start.handle, self.handle)
        return result.value


def wait(device: Device, api: str, handle: int | None, limit: int) -> None:
    """Waits in slices: within a native call Python handles no signal, Ctrl-C for one.

    Each slice that ends early is an error in CANN's log, so long waits have long ones.
    """
    for part in chain(SLICES, repeat(SLICES[-1])):
        if 0 <= limit <= part:
            break
        with suppress(SynchronizeTimeoutError):
            device.call(api, handle, part)
            return
        limit -= part if limit > 0 else 0
    device.call(api, handle, limit)


def require_event(argument: str, event: object) -> None:
    if not isinstance(event, Event):
        raise ArgumentError(argument, "an Event", type(event).__name__)
    event.require_open()


def milliseconds(timeout: float | None) -> int:
    """Seconds as CANN's timeouts take them: -1 is for ever, and 0 is refused, so the least is one millisecond."""
    if timeout is None:
        return -1
    if isinstance(timeout, bool) or not isinstance(timeout, Real) or not 0 <= float(timeout) < math.inf:
        raise ArgumentError("timeout", "seconds from 0 on, or None", repr(timeout))
    return min(max(1, round(float(timeout) * 1000)), 2**31 - 1)
