# SPDX-License-Identifier: Apache-2.0
"""Streams, and what their queued work keeps alive."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from aclnn_kvcache.errors import Described, DeviceFaultError, LaunchFacts
from aclnn_kvcache.runtime.descriptor import Descriptors
from aclnn_kvcache.runtime.device import BLOCKING, Device
from aclnn_kvcache.runtime.event import Event, milliseconds, require_event, wait
from aclnn_kvcache.runtime.resource import Resource, destroy, make
from aclnn_kvcache.runtime.workspace import Workspace

FLIGHT = 256
"""Objects kept per event; larger means fewer events and later release."""

SYNCHRONIZE = "aclrtSynchronizeStreamWithTimeout"

REMEMBERED = 32
"""Launches since the last good synchronise that a late fault lists."""

Launches: TypeAlias = "deque[tuple[int, str, Described]]"


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
        self.descriptors = Descriptors(device)
        """The native objects of this stream's calls; to be used under ``lock``, as the executors."""
        self.executors: dict[str, Any] = {}
        """By operator, what its ordinary calls on this stream are made with."""
        self.flight = _Flight()
        """Tells whether what was retained still is: it is until this is another object."""
        self._flights: deque[_Flight] = deque([self.flight])
        self._spare_events: list[Event] = []
        self._launches: Launches = deque(maxlen=REMEMBERED)
        self._launched = 0
        self.handle = handle
        made = ctypes.c_void_p(handle)
        with device.bound():
            super().__init__(device, None if self.borrowed else partial(_end, made=made, launches=self._launches))
            if not self.borrowed:
                make(device, made, "aclrtCreateStream", ctypes.byref(made))
        self.handle = made.value

    def synchronize(self, timeout: float | None = None) -> None:
        """Waits until all work queued so far is done, at most ``timeout`` seconds.

        Raises SynchronizeTimeoutError (the work goes on), or DeviceFaultError if queued work failed, with the launches
        since the last synchronise that was good: one of them is at fault.
        """
        self.require_open()
        limit = milliseconds(timeout)
        last, launched = self._end_flight(), self._launched
        with self.device.bound():
            try:
                self._wait(limit)
            except DeviceFaultError as error:
                self._land(last)
                self.blame(error)
                raise
        self._land(last)
        with self.lock:
            while self._launches and self._launches[0][0] <= launched:
                self._launches.popleft()

    def _wait(self, limit: int) -> None:
        """A fault is raised when the rest has ended too: it may be told while other work still runs."""
        try:
            wait(self.device, SYNCHRONIZE, self.handle, limit)
        except DeviceFaultError:
            with suppress(DeviceFaultError):  # told again, or that of the rest
                wait(self.device, SYNCHRONIZE, self.handle, limit)
            raise

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
        self.retain(event)
        self.device.call("aclrtStreamWaitEvent", self.handle, event.handle)

    def launched(self, operator: str, described: Described) -> None:
        """Remembers a launch, for the fault that may follow; to be called under ``lock``."""
        self._launched += 1
        self._launches.append((self._launched, operator, described))

    def blame(self, error: DeviceFaultError) -> None:
        """Names the launches that may have caused a fault."""
        _blame(error, self._launches)

    def retain(self, *objects: object) -> None:
        """Keeps the objects alive until the stream has passed all that is queued before the next ``mark``."""
        with self.lock:
            self.flight.objects.extend(objects)

    def mark(self) -> None:
        """Now and then records an event behind what is queued, and releases what the events before it have passed."""
        with self.lock:
            if len(self.flight.objects) < FLIGHT:
                return
            event = self._spare_events.pop() if self._spare_events else Event(self.device)
            self.retain(event)  # an interrupt behind the record must not destroy what the stream still has to pass
            self.device.call("aclrtRecordEvent", event.handle, self.handle)
            self._end_flight().event = event
            for flight in list(self._flights):
                if flight.event is not None:
                    if not flight.event.query():
                        return
                    self._land(flight)

    def uses(self, thing: object) -> bool:
        """Whether queued work that was not seen to end uses this object."""
        with self.lock:
            return any(thing is kept for flight in self._flights for kept in flight.objects)

    def in_use(self) -> bool:
        return any(flight.objects for flight in self._flights)

    def settle(self, timeout: float | None = None) -> None:
        # A borrowed stream may be gone by now if nothing of ours is queued on it; one that could not be made never was.
        is_there = self.handle is not None and (not self.borrowed or self.in_use())
        if not self.closed and is_there:
            self.synchronize(timeout)

    def close(self) -> None:
        """Waits for queued work, then destroys the stream unless it is borrowed. Idempotent."""
        self.close_after(self.settle)
        if self.closed:
            self.descriptors.close()
            self.workspace.close()
            for event in self._spare_events:
                event.close()

    def _end_flight(self) -> _Flight:
        """Starts another flight, unless the last is empty, and returns the one before. One step at a time, each
        harmless if an interrupt makes it the last."""
        with self.lock:
            if self.flight.objects or len(self._flights) == 1:
                self._flights.append(flight := _Flight())
                self.flight = flight
            return self._flights[-2]

    def _land(self, last: _Flight) -> None:
        """Releases everything up to this flight, unless another synchronise has."""
        with self.lock:
            position = next((i for i, flight in enumerate(self._flights) if flight is last), -1)
            for _ in range(position + 1):
                flight = self._flights.popleft()
                if flight.event is not None:
                    self._spare_events.append(flight.event)


def _blame(error: DeviceFaultError, remembered: Launches) -> None:
    launches = tuple(LaunchFacts(number, operator, *described) for number, operator, described in remembered)
    if not launches:
        detail = "nothing was launched on this stream since its last good synchronise: another user's work failed"
    elif len(launches) == 1:
        detail = f"the only launch since the last good synchronise is {launches[0].name}"
    else:
        detail = (
            f"one of the launches since the last good synchronise failed: "
            f"{', '.join(launch.name for launch in launches)}; Session(blocking=True) or {BLOCKING}=1 tells which"
        )
    error.attach(launches=launches, operator=launches[-1].operator if len(launches) == 1 else "", detail=detail)


def _end(device: Device, made: ctypes.c_void_p, launches: Launches) -> None:
    """Destroys a stream after its work: one that was collected may have some, and what that uses goes next."""
    try:
        if made.value:
            wait(device, SYNCHRONIZE, made.value, -1)
    except DeviceFaultError as error:
        _blame(error, launches)
        raise
    finally:
        destroy(device, "aclrtDestroyStream", made)


class _Flight:
    """Objects in use by queued work up to an event, or up to the next synchronise where there is none."""

    __slots__ = ("event", "objects")

    def __init__(self) -> None:
        self.event: Event | None = None
        self.objects: list[object] = []
