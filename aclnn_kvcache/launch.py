# SPDX-License-Identifier: Apache-2.0
"""The two-phase call: phase 1 sizes the workspace and makes an executor, phase 2 consumes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from aclnn_kvcache.errors import Described, ExecutorConsumedError
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.descriptor import Descriptors
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.runtime.resource import Resource, make
from aclnn_kvcache.runtime.stream import Stream


class Executor(Resource):
    """What phase 1 made. Phase 2 consumes it, whether it succeeds or not; ``close`` destroys one that never ran."""

    noun = "executor"
    on_host = True

    def __init__(self, device: Device, operator: str, arguments: Sequence[Any]) -> None:
        """Phase 1: calls ``<operator>GetWorkspaceSize`` with the arguments in front of its two out-parameters.

        Raises AclnnParameterError or AclnnInnerError with what the library says.
        """
        self.operator = operator
        self.consumed = False
        self._handle = made = ctypes.c_void_p()
        workspace_size = ctypes.c_uint64()
        super().__init__(device, lambda owner: _destroy(owner, made))
        out = ctypes.byref(workspace_size), ctypes.byref(made)
        make(device, made, f"{operator}GetWorkspaceSize", *arguments, *out)
        self.workspace_size = workspace_size.value

    def run(self, stream: Stream) -> None:
        """Phase 2: queues the operator on the stream and returns.

        Raises ExecutorConsumedError the second time, without a native call; AclnnInnerError if the launch fails.
        """
        if self.consumed:
            raise ExecutorConsumedError(
                f"this executor of {self.operator} was already consumed by its phase 2; run phase 1 again for another"
            )
        self.require_open()
        stream.require_open()
        with stream.lock:
            workspace = stream.workspace.of(self.workspace_size)
            stream.retain(workspace)
            self.consumed = True
            self.disown()
            pointer = workspace.pointer if workspace else None
            self.device.call(self.operator, pointer, self.workspace_size, self._handle.value, stream.handle)


def _destroy(device: Device, executor: ctypes.c_void_p) -> None:
    if executor.value:
        status = device.library.aclDestroyAclOpExecutor(executor.value)
        check_native(device.library, status, "aclDestroyAclOpExecutor")


def launch(
    device: Device, operator: str, arguments: Sequence[Any], stream: Stream, described: Described = ((), ())
) -> None:
    """One whole call on a stream: descriptors, phase 1, workspace, phase 2; in blocking mode the wait for its work too.

    ``arguments`` are those of phase 1 in the order of our header: device arrays, tuples of integers, text, numbers,
    None. Descriptors and device memory stay alive until the stream has passed the call. ``described`` is what a late
    fault says of the call.
    """
    with device.bound():
        _enqueue(device, operator, arguments, stream)
        stream.launched(operator, described)
        if device.blocking:
            stream.synchronize()


def _enqueue(device: Device, operator: str, arguments: Sequence[Any], stream: Stream) -> None:
    with stream.lock:
        stream.mark()
        descriptors = Descriptors(device, arguments)
        # Before the launch: an interrupt behind it must not free what the kernel uses.
        stream.retain(descriptors, *(argument.buffer for argument in arguments if isinstance(argument, DeviceArray)))
        Executor(device, operator, descriptors.values).run(stream)
