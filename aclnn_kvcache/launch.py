# SPDX-License-Identifier: Apache-2.0
"""The two-phase call: phase 1 sizes the workspace and makes an executor, phase 2 consumes it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from aclnn_kvcache.errors import ExecutorConsumedError, check
from aclnn_kvcache.runtime.descriptor import Descriptors
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.runtime.resource import Resource
from aclnn_kvcache.runtime.stream import Stream


class Executor(Resource):
    """What phase 1 made. Phase 2 consumes it, whether it succeeds or not; ``close`` destroys one that never ran."""

    on_host = True

    def __init__(self, device: Device, operator: str, handle: int, workspace_size: int) -> None:
        self.operator = operator
        self.workspace_size = workspace_size
        self.consumed = False
        self._handle = handle
        super().__init__(device, lambda owner: _destroy(owner, handle))

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
            self.consumed = True
            self.disown()
            pointer = workspace.pointer if workspace else None
            self.device.call(self.operator, pointer, self.workspace_size, self._handle, stream.handle)
            stream.retain(workspace)


def _destroy(device: Device, executor: int) -> None:
    check(device.library.aclDestroyAclOpExecutor(executor), "aclDestroyAclOpExecutor")


def phase_1(device: Device, operator: str, arguments: Sequence[Any]) -> Executor:
    """Calls ``<operator>GetWorkspaceSize`` with the arguments in front of its two out-parameters.

    Raises AclnnParameterError or AclnnInnerError with what the library says.
    """
    api = f"{operator}GetWorkspaceSize"
    function = getattr(device.library, api)
    workspace_size, handle = ctypes.c_uint64(0), ctypes.c_void_p(None)
    with device.bound():
        status = function(*arguments, ctypes.byref(workspace_size), ctypes.byref(handle))
        check(status, api, device.library.aclGetRecentErrMsg)
    return Executor(device, operator, handle.value or 0, workspace_size.value)


def launch(device: Device, operator: str, arguments: Sequence[Any], stream: Stream) -> None:
    """One whole call on a stream: descriptors, phase 1, workspace, phase 2.

    ``arguments`` are those of phase 1 in the order of our header: device arrays, tuples of integers, text, numbers,
    None. Descriptors and device memory stay alive until the stream has passed the call.
    """
    descriptors = Descriptors(device, arguments)
    try:
        phase_1(device, operator, descriptors.values).run(stream)
    except BaseException:
        with suppress(Exception):
            descriptors.close()
        raise
    stream.retain(descriptors, *(argument.buffer for argument in arguments if isinstance(argument, DeviceArray)))
