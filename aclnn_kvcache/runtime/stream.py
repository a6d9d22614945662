# SPDX-License-Identifier: Apache-2.0
"""Streams, and what their queued work keeps alive."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from contextlib import suppress
from functools import partial

from aclnn_kvcache.errors import ClosedError, DeviceFaultError, SynchronizeTimeoutError
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.event import Event, milliseconds, require_event
from aclnn_kvcache.runtime.process import forked
from aclnn_kvcache.runtime.resource import Resource, destroy
from aclnn_kvcache.runtime.workspace import Workspace

SLICE = 1000
"""Milliseconds of one native wait."""

FLIGHT = 64
"""Objects kept per event; larger means fewer events and later release."""


class Stream(Resource):
    """A queue of device work, own or borrowed.

    Everything that queued work uses is retained until the stream has passed it: a synchronise releases all of it, and
    on a stream that is never synchronised events in between do.
    """

    noun = "stream"
    close_order = 2

    def __init__(self, device: Device, handle: int | None = None) -> None:
        """Makes a stream; with ``handle`` borrows somebody else's, which is then never destroyed here."""
        self.borrowed = handle is not None
        self.lock = threading.RLock()
        self.workspace = Workspace(device)
        self._flights: deque[tuple[Event | None, list[object]]] = deque()
        self._flight: list[object] = []
        self._spare_events: list[Event] = []
        made = ctypes.c_void_p(handle)
        with device.bound():
            destroyed_by = None if self.borrowed else partial(destroy, api="aclrtDestroyStream", made=made)
            super().__init__(device, destroyed_by)
            if not self.borrowed:
                device.call("aclrtCreateStream", ctypes.byref(made))
        self.handle = made.value

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until all work queued so far is done, at most ``timeout`` seconds.

        Raises SynchronizeTimeoutError (the work goes on), or DeviceFaultError if queued work failed.
        """
        self.require_open()
        limit = milliseconds(timeout)
        with self.lock:
            last = self._end_flight(None)
        try:
            self._wait(limit)
        except DeviceFaultError:
            self._land(last)
            raise
        self._land(last)

    def _wait(self, limit: int) -> None:
        """Waits in slices: within a native call Python handles no signal, Ctrl-C for one."""
        while limit < 0 or limit > SLICE:
            with suppress(SynchronizeTimeoutError):
                self.device.call("aclrtSynchronizeStreamWithTimeout", self.handle, SLICE)
                return
            limit -= SLICE if limit > 0 else 0
        self.device.call("aclrtSynchronizeStreamWithTimeout", self.handle, limit)

    def query(self) -> bool:
        """Whether all queued work is done."""
        self.require_open()
        status = ctypes.c_int()
        self.device.call("aclrtStreamQuery", self.handle, ctypes.byref(status))
        return status.value == 0

    def wait(self, event: Event) -> None:
        """Work queued from now on starts after the event's latest record has been passed."""
        self.require_open()
        require_event("event", event)
        self.device.call("aclrtStreamWaitEvent", self.handle, event.handle)
        self.retain(event)

    def retain(self, *objects: object) -> None:
        """Keeps the objects alive until the stream has passed what is queued now."""
        with self.lock:
            self._flight.extend(objects)
            if len(self._flight) >= FLIGHT:
                event = self._spare_events.pop() if self._spare_events else Event(self.device)
                self.device.call("aclrtRecordEvent", event.handle, self.handle)
                self._end_flight(event)
                while self._flights and (first := self._flights[0][0]) is not None and first.query():
                    self._spare_events.append(first)
                    self._flights.popleft()

    def uses(self, thing: object) -> bool:
        """Whether queued work that was not seen to end uses this object."""
        with self.lock:
            return any(thing is kept for _, flight in (*self._flights, (None, self._flight)) for kept in flight)

    def settle(self, timeout: float | None = None) -> None:
        # A borrowed stream may be gone by now if nothing of ours is queued on it.
        if not self.closed and (not self.borrowed or self._flight or self._flights):
            self.synchronize(timeout)

    def close(self) -> None:
        """Waits for queued work, then destroys the stream unless it is borrowed. Idempotent."""
        if self.closed:
            return
        try:
            if not self.device.closed and not forked():
                with suppress(ClosedError):
                    self.settle()
        finally:
            super().close()
            self.workspace.close()
            for event in self._spare_events:
                event.close()

    def _end_flight(self, event: Event | None) -> list[object]:
        flight, self._flight = self._flight, []
        self._flights.append((event, flight))
        return flight

    def _land(self, last: list[object]) -> None:
        """Releases everything up to this flight, unless another synchronise has."""
        with self.lock:
            position = next((i for i, (_, flight) in enumerate(self._flights) if flight is last), -1)
            for _ in range(position + 1):
                event, _flight = self._flights.popleft()
                if event is not None:
                    self._spare_events.append(event)
