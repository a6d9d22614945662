# SPDX-License-Identifier: Apache-2.0
"""The two-phase call: phase 1 sizes the workspace and makes an executor, phase 2 consumes it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from aclnn_kvcache.errors import PHASE_1, Described, ExecutorConsumedError, KvCacheError
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.descriptor import Descriptors
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.memory import DeviceArray, DeviceBuffer
from aclnn_kvcache.runtime.process import forked
from aclnn_kvcache.runtime.resource import Resource
from aclnn_kvcache.runtime.stream import Stream
from aclnn_kvcache.runtime.tensor_layout import TensorLayout


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


class PreparedLaunch(Resource):
    """A call that is launched again and again: its descriptors are made once, and if CANN allows it its executor too.

    Made, changed and run inside ``device.bound()``. ``is_repeatable`` says whether one executor serves all launches;
    if not, each launch sizes anew, with the same descriptors.
    """

    noun = "plan"
    close_order = -1  # before the descriptors, which a repeatable executor refers to
    on_host = True

    def __init__(
        self, device: Device, operator: str, arguments: Sequence[Any], stream: Stream, described: Described = ((), ())
    ) -> None:
        """``arguments`` and ``described`` as for ``launch``; raises as that does in phase 1."""
        self.operator, self.stream = operator, stream
        self._described, self._arguments = described, list(arguments)
        self._made, self._size = made, size = ctypes.c_void_p(), ctypes.c_uint64()
        super().__init__(device, lambda owner: _destroy_executor(owner, made))
        self._descriptors = Descriptors(device)
        self._native = (*self._descriptors.native(arguments), ctypes.byref(size), ctypes.byref(made))
        self._phase_1: Callable[..., int] = getattr(device.library, operator + PHASE_1)
        self._phase_2: Callable[..., int] = getattr(device.library, operator)
        self._flight: object = None
        self._pointer: int | None = None
        self._room = 0
        self._size_call()
        self.is_repeatable = device.library.aclSetAclOpExecutorRepeatable(made.value) == 0
        if not self.is_repeatable:
            device.library.aclGetRecentErrMsg()  # a refusal is an answer here, not an error
            _destroy_executor(device, made)

    @property
    def tensors(self) -> tuple[int, ...]:
        pairs = zip(self._arguments, self._native, strict=False)
        return tuple(handle for argument, handle in pairs if hasattr(argument, "buffer"))

    @property
    def executor(self) -> int | None:
        return self._made.value if self.is_repeatable else None

    def run(self) -> None:
        """Queues the call on its stream. Raises as ``launch`` does, ClosedError after ``close``."""
        stream = self.stream
        with stream.lock:
            if stream.flight is not self._flight:
                self._retain()
            handle = self._made.value
            if not self.is_repeatable:
                handle = self._size_call()
                self._made.value = None  # phase 2 consumes it
            status = self._phase_2(self._pointer, self._size.value, handle, stream.handle)
            if status:
                check_native(self.device.library, status, self.operator)
            stream.launched(self.operator, self._described)
        if self.device.blocking:
            stream.synchronize()

    def point(self, position: int, array: DeviceArray) -> None:
        """Puts another array of equal shape, dtype and strides in the place of an argument, from the next launch on."""
        old = self._arguments[position]
        # The descriptor keeps its offset: the storage is moved so that the first element is the array's.
        base = array.ptr - old.layout.offset
        with self.stream.lock:
            tensor = self._native[position]
            if self.is_repeatable:
                self.device.call("aclSetTensorAddr", self._made.value, position, tensor, base)
            else:
                self.device.call("aclSetRawTensorAddr", tensor, base)
            self._arguments[position] = _Moved(array.buffer, old.layout)
            self._flight = None

    def release(self) -> None:
        self._flight = None
        super().release()
        self._descriptors.close()

    def _size_call(self) -> int | None:
        status = self._phase_1(*self._native)
        if status:
            self._made.value = None
            check_native(self.device.library, status, self.operator + PHASE_1)
        if self._size.value > self._room:
            self._retain()
        return self._made.value

    def _retain(self) -> None:
        """What the call uses, until the stream has passed what is queued before the next mark."""
        self.require_open()
        stream = self.stream
        stream.require_open()
        stream.mark()
        workspace = stream.workspace.of(self._size.value)
        self._pointer, self._room = (workspace.pointer, workspace.nbytes) if workspace else (None, 0)
        buffers = [argument.buffer for argument in self._arguments if hasattr(argument, "buffer")]
        for buffer in buffers:
            buffer.require_open()
        stream.retain(self, workspace, *buffers)
        self._flight = stream.flight


class _Moved(NamedTuple):
    """An argument whose memory is another than that of the array its descriptor was made of."""

    buffer: DeviceBuffer
    layout: TensorLayout


def _destroy_executor(device: Device, made: ctypes.c_void_p) -> None:
    handle, made.value = made.value, None
    if handle:
        device.call("aclDestroyAclOpExecutor", handle)
