# SPDX-License-Identifier: Apache-2.0
"""Events: marks in a stream that another stream, or the host, can wait for."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.resource import Resource

if TYPE_CHECKING:
    from aclnn_kvcache.runtime.stream import Stream

SYNC, TIME_LINE = 0x1, 0x8
COMPLETE = 1  # of aclrtEventRecordedStatus, the one status enum where 0 means "not ready"


class Event(Resource):
    """An event that can be recorded again and again; the latest record counts."""

    close_order = 1

    def __init__(self, device: Device) -> None:
        handle = ctypes.c_void_p()
        device.call("aclrtCreateEventExWithFlag", ctypes.byref(handle), SYNC | TIME_LINE)
        self.handle = handle.value
        super().__init__(device, lambda owner, value=handle.value: owner.call("aclrtDestroyEvent", value))  # type: ignore[misc]

    def record(self, stream: Stream) -> None:
        """Marks the end of what is queued on the stream now."""
        self.require_open()
        stream.require_open()
        self.device.call("aclrtRecordEvent", self.handle, stream.handle)
        stream.retain(self)

    def query(self) -> bool:
        """Whether the latest record has been passed; True for an event that was never recorded."""
        self.require_open()
        status = ctypes.c_int()
        self.device.call("aclrtQueryEventStatus", self.handle, ctypes.byref(status))
        return status.value == COMPLETE

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits, at most ``timeout`` seconds. Raises SynchronizeTimeoutError, DeviceFaultError."""
        self.require_open()
        self.device.call("aclrtSynchronizeEventWithTimeout", self.handle, milliseconds(timeout))

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds from the record of ``start`` to this one's; both must have been passed."""
        self.require_open()
        start.require_open()
        result = ctypes.c_float()
        self.device.call("aclrtEventElapsedTime", ctypes.byref(result), start.handle, self.handle)
        return result.value


def milliseconds(timeout: float | None) -> int:
    """Seconds as CANN's timeouts take them: -1 is for ever, and 0 is refused, so the least is one millisecond."""
    return -1 if timeout is None else min(max(1, round(timeout * 1000)), 2**31 - 1)
