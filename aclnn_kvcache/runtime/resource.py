# SPDX-License-Identifier: Apache-2.0
"""What all native resources share: one owner, closed once, silent when collected."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from aclnn_kvcache.errors import ClosedError, DeviceFaultError, KvCacheError
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.process import forked

Destroy = Callable[[Device], None]


class Resource:
    """A native handle. ``destroy`` is called once: by ``close``, by the device's close, or on collection.

    Registered before the handle exists, so that an interrupt right after the native call that makes it leaks nothing:
    ``destroy`` looks at the out-parameter that the call fills.
    """

    noun: ClassVar[str] = "object"
    """How messages call it."""

    close_order: ClassVar[int] = 0
    """Lower ones are closed first when the device closes."""

    on_host: ClassVar[bool] = False
    """Whether it is made of host memory alone, which does not go with the device."""

    def __init__(self, device: Device, destroy: Destroy | None) -> None:
        self.device = device
        self.closed = False
        self._destroy = destroy
        # The callback must not hold the resource; it holds the device, which is thereby closed last.
        self._collected = weakref.finalize(self, _on_collection, device, destroy, id(self))
        self._collected.atexit = False
        device.adopt(self)

    def uses(self, thing: object) -> bool:
        """Whether work queued here may still use the object."""
        return False

    def in_use(self) -> bool:
        """Whether queued work may still use the handle."""
        return False

    def settle(self, timeout: float | None = None) -> None:
        """Waits for the work queued here, at most ``timeout`` seconds."""

    def close(self) -> None:
        """Idempotent. In a forked child it only marks the object: the handle is the parent's."""
        if self.closed or forked():
            self.closed = True
            return
        with suppress(ClosedError), self.device.bound():  # once the device is being closed, that destroys it
            self.release()

    def close_after(self, wait: Callable[[], None]) -> None:
        """Waits for the work that uses the handle, then closes. Work that failed has ended too, and is told afterwards;
        a wait that was interrupted or failed itself leaves everything as it is, since the work may still run."""
        if self.closed or forked():
            self.closed = True
            return
        fault: DeviceFaultError | None = None
        try:
            wait()
        except ClosedError:  # the device is being closed, and waits itself
            return
        except DeviceFaultError as error:
            if self.in_use():
                raise
            fault = error
        Resource.close(self)
        if fault is not None:
            raise fault

    def release(self) -> None:
        """Destroys the handle if it is still there, in whatever context is current."""
        if self.disown() and self._destroy is not None:
            self._destroy(self.device)

    def disown(self) -> bool:
        """Marks the handle as gone; False if it was already."""
        self.closed = True
        self.device.forget(id(self))
        return self._collected.detach() is not None

    def require_open(self) -> None:
        if self.device.closed:
            raise ClosedError(f"the session of this {self.noun} is closed; open a new one")
        if self.closed:
            raise ClosedError(f"this {self.noun} is closed; make a new one")


def make(device: Device, made: ctypes.c_void_p, api: str, *arguments: Any) -> None:
    """Calls the function that fills the out-parameter. One that fails made nothing, whatever it left there."""
    with device.bound():
        status = getattr(device.library, api)(*arguments)
        if status != 0:
            made.value = None
        check_native(device.library, status, api)


def destroy(device: Device, api: str, made: ctypes.c_void_p) -> None:
    """Destroys the handle in an out-parameter, if the native call came to fill it."""
    if made.value:
        device.call(api, made.value)


def _on_collection(device: Device, destroy: Destroy | None, key: int) -> None:
    device.forget(key)
    if destroy is None or device.closed or forked():
        return
    is_bound = False
    try:
        with device.bound():
            is_bound = True
            destroy(device)
    except KvCacheError as failure:
        if not is_bound:
            device.leave_behind(destroy)
        if not isinstance(failure, ClosedError):
            device.tell_later(failure)
