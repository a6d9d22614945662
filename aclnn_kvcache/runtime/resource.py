# SPDX-License-Identifier: Apache-2.0
"""What all native resources share: one owner, closed once, silent when collected."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar

from aclnn_kvcache.errors import ClosedError, KvCacheError
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.process import forked


class Resource:
    """A native handle. ``destroy`` is called once with it: by ``close``, by the device's close, or on collection."""

    close_order: ClassVar[int] = 0
    """Lower ones are closed first when the device closes."""

    on_host: ClassVar[bool] = False
    """Whether it is made of host memory alone, which does not go with the device."""

    def __init__(self, device: Device, destroy: Callable[[Device], None] | None) -> None:
        self.device = device
        self.closed = False
        self._destroy = destroy
        # The callback must not hold the resource; it holds the device, which is thereby closed last.
        self._collected = weakref.finalize(self, _on_collection, device, destroy)
        self._collected.atexit = False
        device.adopt(self)

    def uses(self, thing: object) -> bool:
        """Whether work queued here may still use the object."""
        return False

    def settle(self) -> None:
        """Waits for the work queued here."""

    def close(self) -> None:
        """Idempotent. In a forked child it only marks the object: the handle is the parent's."""
        if self._collected.detach() is None:
            return
        self.closed = True
        if self._destroy is not None and not self.device.closed and not forked():
            self._destroy(self.device)

    def disown(self) -> None:
        """Marks the handle as consumed by the library: it is never destroyed here."""
        self._collected.detach()
        self.closed = True

    def require_open(self) -> None:
        if self.closed or self.device.closed:
            raise ClosedError(f"this {type(self).__name__} is closed")


def _on_collection(device: Device, destroy: Callable[[Device], None] | None) -> None:
    if destroy is not None and not device.closed and not forked():
        with suppress(KvCacheError):
            destroy(device)
