# SPDX-License-Identifier: Apache-2.0
"""The workspace of a stream: one buffer that grows and is used by call after call, since the stream orders them."""

from __future__ import annotations

from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceBuffer


class Workspace:
    def __init__(self, device: Device) -> None:
        self._device = device
        self._buffer: DeviceBuffer | None = None

    def of(self, nbytes: int) -> DeviceBuffer | None:
        """A buffer of at least that size; None for 0. The one it replaces is freed when no queued work holds it."""
        if nbytes == 0:
            return None
        if self._buffer is None or self._buffer.nbytes < nbytes:
            self._buffer = DeviceBuffer(self._device, nbytes)
        return self._buffer

    def close(self) -> None:
        if self._buffer is not None:
            self._buffer.close()
