# SPDX-License-Identifier: Apache-2.0
"""An opened device: its primary context, bound to whichever thread calls, and the resources made in it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aclnn_kvcache.errors import ClosedError, KvCacheError, check
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.runtime.process import Process, close_at_exit, forked, process_of, refuse_after_fork

if TYPE_CHECKING:
    from aclnn_kvcache.runtime.resource import Resource

NO_CONTEXT = 107002


class Device:
    """One reference on a device's primary context. ``close`` closes everything made in it, children first."""

    def __init__(self, library: Library, device: int) -> None:
        """Raises DeviceUnavailableError if there is no such device, ForkedProcessError in a forked child."""
        self.library, self.id = library, device
        self.closed = False
        self._close_lock = threading.RLock()
        self._resources_lock = threading.Lock()
        self._resources: weakref.WeakSet[Resource] = weakref.WeakSet()
        self._process = process = process_of(library)
        process.acquire()
        before = current_context(library)
        try:
            check(library.aclrtSetDevice(device), f"aclrtSetDevice({device})", library.aclGetRecentErrMsg)
        except BaseException:
            process.release()
            raise
        self._close_native = weakref.finalize(self, _close_device, process, library, device)
        self._close_native.atexit = False
        close_at_exit(self)
        self.context = current_context(library)
        if before is not None and before != self.context:
            self.call("aclrtSetCurrentContext", before)

    def bound(self) -> _Binding:
        """``with device.bound():`` makes the device's context current in this thread, and puts back what was there.

        Raises ClosedError, or ForkedProcessError in a forked child.
        """
        refuse_after_fork()
        if self.closed:
            raise ClosedError(f"the session on device {self.id} is closed; open a new one")
        return _Binding(self.library, self.context)

    def call(self, api: str, *arguments: Any) -> None:
        """Calls a C function in the device's context; raises the exception of a status that is not 0."""
        with self.bound():
            check(getattr(self.library, api)(*arguments), api, self.library.aclGetRecentErrMsg)

    def adopt(self, resource: Resource) -> None:
        with self._resources_lock:
            self._resources.add(resource)

    def resources(self) -> list[Resource]:
        """The open resources, in the order in which they are closed."""
        with self._resources_lock:
            resources = list(self._resources)
        return sorted((r for r in resources if not r.closed), key=lambda r: r.close_order)

    def settle(self, thing: object) -> None:
        """Waits for queued work that uses the object. Raises DeviceFaultError if that work failed."""
        for resource in self.resources():
            if resource.uses(thing):
                resource.settle()

    def close(self) -> None:
        """Waits for queued work, then destroys memory, descriptors, events and streams, then resets the device.

        Idempotent. Everything is torn down even if a step fails; the first failure (a kernel fault that nobody had
        synchronised for, say) is raised at the end.
        """
        with self._close_lock:
            if self.closed or forked():
                self.closed = True
                return
            failures: list[KvCacheError] = []
            resources = self.resources()
            for step in (*(r.settle for r in resources), *(r.close for r in resources)):
                _attempt(step, failures)
            self.closed = True
            _attempt(self._close_native, failures)
            if failures:
                raise failures[0]

    def abandon(self) -> None:
        """Gives the device back at once, for one that hangs: drops queued work and everything made on the device."""
        with self._close_lock:
            if self.closed or forked():
                return
            self._close_native.detach()
            try:
                check(self.library.aclrtResetDeviceForce(self.id), f"aclrtResetDeviceForce({self.id})")
                for resource in self.resources():
                    if resource.on_host:
                        resource.close()
            finally:
                self.closed = True
                self._process.release()


def _attempt(step: Callable[[], object], failures: list[KvCacheError]) -> None:
    try:
        step()
    except KvCacheError as error:
        failures.append(error)


def _close_device(process: Process, library: Library, device: int) -> None:
    if forked():
        return
    try:
        check(library.aclrtResetDevice(device), f"aclrtResetDevice({device})", library.aclGetRecentErrMsg)
    finally:
        process.release()


def current_context(library: Library) -> int | None:
    """The context of the calling thread, or None."""
    context = ctypes.c_void_p()
    status = library.aclrtGetCurrentContext(ctypes.byref(context))
    if status == NO_CONTEXT:
        library.aclGetRecentErrMsg()  # asking left a message that would head the next real failure's text
        return None
    check(status, "aclrtGetCurrentContext", library.aclGetRecentErrMsg)
    return context.value


class _Binding:
    __slots__ = ("context", "library", "previous")

    def __init__(self, library: Library, context: int | None) -> None:
        self.library, self.context = library, context
        self.previous: int | None = None

    def __enter__(self) -> None:
        current = current_context(self.library)
        if current != self.context:
            status = self.library.aclrtSetCurrentContext(self.context)
            check(status, "aclrtSetCurrentContext", self.library.aclGetRecentErrMsg)
            self.previous = current

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.previous is not None:
            self.library.aclrtSetCurrentContext(self.previous)
