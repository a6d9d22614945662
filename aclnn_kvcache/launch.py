# SPDX-License-Identifier: Apache-2.0
"""The two-phase call: phase 1 sizes the workspace and makes an executor, phase 2 consumes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aclnn_kvcache.errors import PHASE_1, Described, ExecutorConsumedError, KvCacheError
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.runtime.process import forked
from aclnn_kvcache.runtime.stream import Stream


class Executor:
    """What phase 1 made. Phase 2 consumes it, whether it succeeds or not; ``close`` destroys one that never ran.

    Made and run inside ``device.bound()``.
    """

    __slots__ = ("_made", "_size", "consumed", "device", "operator")

    def __init__(self, device: Device, operator: str, arguments: Sequence[Any]) -> None:
        """Phase 1: calls ``<operator>GetWorkspaceSize`` with the arguments in front of its two out-parameters.

        Raises AclnnParameterError or AclnnInnerError with what the library says.
        """
        self.device, self.operator = device, operator
        self.consumed = False
        self._made, self._size = made, size = ctypes.c_void_p(), ctypes.c_uint64()
        api = operator + PHASE_1
        status = getattr(device.library, api)(*arguments, ctypes.byref(size), ctypes.byref(made))
        if status:
            # CANN leaves the out-parameters of a failed call as they were; whatever else stands there is no executor.
            made.value = None
            check_native(device.library, status, api)

    @property
    def workspace_size(self) -> int:
        """Bytes of device memory that phase 2 needs."""
        return self._size.value

    def run(self, stream: Stream) -> None:
        """Phase 2: queues the operator on the stream and returns.

        Raises ExecutorConsumedError the second time, without a native call; AclnnInnerError if the launch fails.
        """
        if self.consumed:
            raise ExecutorConsumedError(
                f"this executor of {self.operator} was already consumed by its phase 2; run phase 1 again for another"
            )
        stream.require_open()
        with stream.lock:
            size = self._size.value
            workspace = stream.workspace.of(size)
            pointer = None
            if workspace is not None:
                stream.retain(workspace)
                pointer = workspace.pointer
            self.consumed = True
            status = getattr(self.device.library, self.operator)(pointer, size, self._made.value, stream.handle)
        if status:
            check_native(self.device.library, status, self.operator)

    def close(self) -> None:
        """Idempotent."""
        if not self.consumed and self._made.value and not forked():
            self.consumed = True
            self.device.call("aclDestroyAclOpExecutor", self._made.value)

    def __del__(self) -> None:
        if not self.consumed and not self.device.closed:
            with suppress(KvCacheError):
                self.close()


def launch(
    device: Device, operator: str, arguments: Sequence[Any], stream: Stream, described: Described = ((), ())
) -> None:
    """One whole call on a stream, inside ``device.bound()``: descriptors, phase 1, workspace, phase 2; in blocking mode
    the wait for its work too.

    ``arguments`` are those of phase 1 in the order of our header: device arrays, tuples of integers, text, numbers,
    None. Device memory stays alive until the stream has passed the call. ``described`` is what a late fault says of
    the call.
    """
    with stream.lock:
        stream.mark()
        native = stream.descriptors.native(arguments)
        # Before the launch: an interrupt behind it must not free what the kernel uses.
        stream.retain(*[argument.buffer for argument in arguments if type(argument) is DeviceArray])
        executor = Executor(device, operator, native)
        try:
            executor.run(stream)
        except BaseException:
            executor.close()
            raise
        stream.launched(operator, described)
    if device.blocking:
        stream.synchronize()
