# SPDX-License-Identifier: Apache-2.0
"""An opened device: its primary context, bound to whichever thread calls, and the resources made in it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from aclnn_kvcache.errors import ClosedError, KvCacheError, SynchronizeTimeoutError
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.process import close_at_exit, forked, process_of, refuse_after_fork
from aclnn_kvcache.runtime.unheard import tell_aside

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library
    from aclnn_kvcache.runtime.resource import Resource

NO_CONTEXT = 107002

BLOCKING = "ACLNN_KVCACHE_BLOCKING"
"""Environment variable that makes sessions blocking, like the argument."""

EXIT_PATIENCE = 30.0
"""Seconds that the end of the interpreter waits for queued work before it gives the device up."""


class Device:
    """One reference on a device's primary context. ``close`` closes everything made in it, children first.

    Native calls happen inside ``bound``. Closing shuts the door for other threads, lets those inside finish, and only
    then destroys: no thread ever uses a handle that another one destroyed.
    """

    def __init__(self, library: Library, device: int, *, blocking: bool = False) -> None:
        """``blocking``: every launch waits for its work, so that a late fault is told by the call that made it.

        Raises DeviceUnavailableError if there is no such device, ForkedProcessError in a forked child."""
        self.library, self.id, self.blocking = library, device, blocking
        self.closed = False
        self._door = threading.Condition(threading.RLock())
        self._inside: dict[int, int] = {}
        self._closer: int | None = None
        # By id, and weakly: adding, removing and listing are single steps, so that a finalizer or a signal handler
        # that comes in between is harmless.
        self._resources: dict[int, weakref.ref[Resource]] = {}
        self._orphans: list[Callable[[Device], None]] = []
        self._unheard: list[KvCacheError] = []
        self._process = process = process_of(library)
        process.acquire()
        try:
            before = current_context(library)
            check_native(library, library.aclrtSetDevice(device), f"aclrtSetDevice({device})")
        except BaseException:
            process.release()
            raise
        self._close_native = weakref.finalize(self, _close_device, process, library, device)
        self._close_native.atexit = False
        weakref.finalize(self, _tell_unheard, self._unheard, device).atexit = False
        close_at_exit(self)
        try:
            self.context = current_context(library)
            if before is not None and before != self.context:
                check_native(library, library.aclrtSetCurrentContext(before), "aclrtSetCurrentContext")
        except BaseException:
            if before is not None:
                library.aclrtSetCurrentContext(before)
            with suppress(KvCacheError):  # the first failure is the one to tell
                self._close_native()
            raise

    def bound(self) -> _Binding:
        """``with device.bound():`` makes the device's context current in this thread, and puts back what was there.

        Nests. Raises ClosedError once the device is being closed, ForkedProcessError in a forked child.
        """
        return _Binding(self)

    def is_bound(self) -> bool:
        """Whether the calling thread is inside ``bound``. Raises ForkedProcessError in a forked child."""
        refuse_after_fork()
        return threading.get_ident() in self._inside

    def bind(self) -> int | None:
        """What ``bound`` does on entry, without an object of its own: the context to give to ``unbind``, or None."""
        if self.enter() > 1:
            return None  # bound already
        try:
            current = current_context(self.library)
            if current == self.context:
                return None
            check_native(self.library, self.library.aclrtSetCurrentContext(self.context), "aclrtSetCurrentContext")
            return current
        except BaseException:
            self.leave()
            raise

    def unbind(self, previous: int | None, *, is_failing: bool) -> None:
        """Puts back what ``bind`` returned. Raises if that fails, unless there is a failure to tell already."""
        try:
            if previous is not None:
                status = self.library.aclrtSetCurrentContext(previous)
                if not is_failing:
                    check_native(self.library, status, "aclrtSetCurrentContext")
        finally:
            self.leave()

    def call(self, api: str, *arguments: Any) -> None:
        """Calls a C function in the device's context; raises the exception of a status that is not 0."""
        with self.bound():
            check_native(self.library, getattr(self.library, api)(*arguments), api)

    def enter(self) -> int:
        """How deep the calling thread is inside then."""
        refuse_after_fork()
        thread = threading.get_ident()
        # No lock: a thread goes in first and then looks at the door, who closes shuts the door and then looks inside.
        depth = self._inside[thread] = self._inside.get(thread, 0) + 1
        if self.closed or (self._closer is not None and self._closer != thread and depth == 1):
            self.leave()
            raise ClosedError(f"the session on device {self.id} is closed; open a new one")
        return depth

    def leave(self) -> None:
        thread = threading.get_ident()
        depth = self._inside[thread] - 1
        if depth:
            self._inside[thread] = depth
            return
        del self._inside[thread]
        if self._closer is not None:
            with self._door:
                self._door.notify_all()

    def adopt(self, resource: Resource) -> None:
        self._resources[id(resource)] = weakref.ref(resource)

    def forget(self, key: int) -> None:
        self._resources.pop(key, None)

    def leave_behind(self, destroy: Callable[[Device], None]) -> None:
        """Has the close destroy what a collected resource could not: the door was shut, or the thread not bound."""
        self._orphans.append(destroy)

    def tell_later(self, failure: KvCacheError) -> None:
        """Has the close raise what went wrong where nobody could be told, as when a resource was collected; or has it
        told when the device is collected itself."""
        self._unheard.append(failure.with_traceback(None))  # which would hold what it passed through

    def resources(self) -> list[Resource]:
        """The open resources, in the order in which they are closed."""
        found = [resource for ref in list(self._resources.values()) if (resource := ref()) is not None]
        return sorted((r for r in found if not r.closed), key=lambda r: r.close_order)

    def settle(self, thing: object) -> None:
        """Waits for queued work that uses the object. Raises DeviceFaultError if that work failed."""
        for resource in self._users(thing):
            resource.settle()

    def in_use(self, thing: object) -> bool:
        """Whether queued work may still use the object."""
        return any(self._users(thing))

    def _users(self, thing: object) -> Iterator[Resource]:
        for ref in list(self._resources.values()):
            resource = ref()
            if resource is not None and not resource.closed and resource.uses(thing):
                yield resource

    def close(self, timeout: float | None = None) -> None:
        """Waits for queued work, then destroys memory, descriptors, events and streams, then resets the device.

        Idempotent. Everything is torn down even if a step fails; the first failure (a kernel fault that nobody had
        synchronised for, say) is raised at the end, one of a resource that was collected before too. With a timeout,
        in seconds, work that takes longer is given up, which is raised too.
        """
        if not self._shut_door(timeout):
            return
        failures = self._unheard
        try:
            resources = self.resources()
            for resource in resources:
                _attempt(partial(resource.settle, timeout), failures)
            late = [failure for failure in failures if isinstance(failure, SynchronizeTimeoutError)]
            if timeout is not None and late:
                late[0].attach(detail="what was still queued is given up")
                _attempt(self._drop, failures)
            else:
                self._close_resources(resources, failures)
        except BaseException:  # an interrupt: what is left can be closed by another call
            self._open_door(closed=self.closed)
            raise
        if not self.closed:
            self._open_door(closed=True)
            _attempt(self._close_native, failures)
        if failures:
            first = failures[0]
            failures.clear()  # told now
            raise first

    def _close_resources(self, resources: list[Resource], failures: list[KvCacheError]) -> None:
        for resource in resources:
            _attempt(resource.close, failures)
        for resource in self.resources():  # to which the thread could not be bound
            if not resource.in_use():
                _attempt(resource.release, failures)
        for destroy in self._orphans:
            _attempt(partial(destroy, self), failures)

    def abandon(self) -> None:
        """Gives the device back at once, for one that hangs: drops queued work and everything made on the device."""
        with self._door:
            if self.closed or forked():
                self.closed = True
                return
            self._closer = threading.get_ident()
        self._drop()

    def _shut_door(self, timeout: float | None) -> bool:
        """Keeps other threads out and waits for those inside; False if there is nothing left to close."""
        thread = threading.get_ident()
        with self._door:
            if self.closed or forked():
                self.closed = True
                return False
            if self._closer is not None and self._closer != thread:
                self._door.wait_for(lambda: self.closed or self._closer is None, timeout)
                return False
            self._closer = thread
            try:
                is_empty = self._door.wait_for(lambda: all(other == thread for other in list(self._inside)), timeout)
            except BaseException:
                self._open_door(closed=False)
                raise
        if not is_empty:
            self._drop()
        return is_empty

    def _open_door(self, *, closed: bool) -> None:
        with self._door:
            self.closed, self._closer = closed, None
            self._door.notify_all()

    def _drop(self) -> None:
        if self._close_native.detach() is None:
            return
        try:
            check_native(self.library, self.library.aclrtResetDeviceForce(self.id), f"aclrtResetDeviceForce({self.id})")
            for resource in self.resources():
                if resource.on_host:
                    resource.release()
        finally:
            self._open_door(closed=True)
            self._process.release()

    def close_at_exit(self) -> None:
        self.close(EXIT_PATIENCE)


def _attempt(step: Callable[[], object], failures: list[KvCacheError]) -> None:
    try:
        step()
    except KvCacheError as error:
        failures.append(error)


def _tell_unheard(unheard: list[KvCacheError], device: int) -> None:
    if unheard and not forked():
        tell_aside(unheard[0], f"the collection of the session on device {device}")


def _close_device(process: Any, library: Library, device: int) -> None:
    if forked():
        return
    try:
        check_native(library, library.aclrtResetDevice(device), f"aclrtResetDevice({device})")
    finally:
        process.release()


_asked = threading.local()
"""The out-parameter of each thread, made once."""


def current_context(library: Library) -> int | None:
    """The context of the calling thread, or None."""
    try:
        context, reference = _asked.context
    except AttributeError:
        context = ctypes.c_void_p()
        _asked.context = context, (reference := ctypes.byref(context))
    status = library.aclrtGetCurrentContext(reference)
    if status == NO_CONTEXT:
        library.aclGetRecentErrMsg()  # asking left a message that would head the next real failure's text
        return None
    check_native(library, status, "aclrtGetCurrentContext")
    value: int | None = context.value
    return value


class _Binding:
    __slots__ = ("device", "previous")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.previous: int | None = None

    def __enter__(self) -> None:
        self.previous = self.device.bind()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.device.unbind(self.previous, is_failing=error is not None)


def device_count(library: Library) -> int:
    """How many devices are visible to the process. Raises DeviceUnavailableError; needs no open device."""
    count = ctypes.c_uint32()
    check_native(library, library.aclrtGetDeviceCount(ctypes.byref(count)), "aclrtGetDeviceCount")
    return count.value
