# SPDX-License-Identifier: Apache-2.0
"""The two-phase call: phase 1 sizes the workspace and makes an executor, phase 2 consumes it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
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
    """The two C calls of an operator, with arguments that are converted once.

    ``size`` makes an executor, ``run`` consumes it, whether that succeeds or not; then ``size`` may make another, of
    the same arguments or of what ``take`` put in their place. ``close`` destroys one that never ran. All inside
    ``device.bound()``.
    """

    __slots__ = (
        "_arguments",
        "_given",
        "_made",
        "_phase_1",
        "_phase_2",
        "_queue",
        "_size",
        "_workspace",
        "consumed",
        "device",
        "is_repeatable",
        "operator",
    )

    def __init__(self, device: Device, operator: str, arguments: Sequence[Any]) -> None:
        """``arguments``: those of ``<operator>GetWorkspaceSize`` in front of its two out-parameters."""
        self.device, self.operator = device, operator
        self.consumed, self.is_repeatable = True, False
        self._size, self._made = ctypes.c_uint64(), ctypes.c_void_p()
        self._workspace, self._queue = ctypes.c_void_p(), ctypes.c_void_p()
        size, made = ctypes.byref(self._size), ctypes.byref(self._made)
        self._phase_1, self._arguments = device.library.prepare(operator + PHASE_1, *arguments, size, made)
        self._phase_2, _ = device.library.prepare(operator, self._workspace, self._size, self._made, self._queue)
        self._given: Sequence[Any] | None = arguments

    def take(self, arguments: Sequence[Any]) -> None:
        """Other arguments, for the next ``size``."""
        if arguments is self._given:
            return
        self._given = None  # an interrupt in between must not leave a mixture that the next call believes in
        for converted, value in zip(self._arguments, arguments, strict=False):
            converted.value = value
        self._given = arguments

    @property
    def workspace_size(self) -> int:
        """Bytes of device memory that phase 2 needs."""
        return self._size.value

    @property
    def handle(self) -> int | None:
        return None if self.consumed else self._made.value

    def size(self) -> None:
        """Phase 1. Raises AclnnParameterError or AclnnInnerError with what the library says."""
        status = self._phase_1()
        if status:
            # CANN leaves the out-parameters of a failed call as they were; whatever else stands there is no executor.
            check_native(self.device.library, status, self.operator + PHASE_1)
        self.consumed = False

    def make_repeatable(self) -> None:
        """Has it run again and again if CANN allows that; one that CANN refuses is destroyed."""
        library = self.device.library
        self.is_repeatable = library.aclSetAclOpExecutorRepeatable(self._made.value) == 0
        if not self.is_repeatable:
            library.aclGetRecentErrMsg()  # a refusal is an answer here, not an error
            self.close()

    def place(self, stream: Stream) -> None:
        """Sets the stream to run on, and a workspace there that is retained for the next run."""
        stream.require_open()
        workspace = stream.workspace.of(self._size.value)
        self._queue.value = stream.handle
        self._workspace.value = None
        if workspace is not None:
            stream.retain(workspace)
            self._workspace.value = workspace.pointer

    def run(self) -> None:
        """Phase 2: queues the operator where it was placed, and returns.

        Raises ExecutorConsumedError the second time, without a native call; AclnnInnerError if the launch fails.
        """
        if self.consumed:
            raise ExecutorConsumedError(
                f"this executor of {self.operator} was already consumed by its phase 2; run phase 1 again for another"
            )
        self.consumed = not self.is_repeatable
        status = self._phase_2()
        if status:
            check_native(self.device.library, status, self.operator)

    def close(self) -> None:
        """Idempotent."""
        if not self.consumed and not forked():
            self.consumed = True
            self.device.call("aclDestroyAclOpExecutor", self._made.value)

    def __del__(self) -> None:
        if not self.consumed and not self.device.closed:
            with suppress(KvCacheError):
                self.close()


class Call(NamedTuple):
    """A launch that a stream can make again: its arguments lie in the same memory in the same way."""

    operator: str
    arguments: Sequence[Any]
    """Those of phase 1, with handles of the stream's descriptors."""
    described: Described
    """What a late fault says of it."""


def launch(
    device: Device,
    operator: str,
    arguments: Sequence[Any],
    stream: Stream,
    described: Described = ((), ()),
    key: object = None,
) -> None:
    """One whole call on a stream, inside ``device.bound()``: descriptors, phase 1, workspace, phase 2; in blocking mode
    the wait for its work too.

    ``arguments`` are those of phase 1 in the order of our header: device arrays, tuples of integers, text, numbers,
    None. Device memory stays alive until the stream has passed the call. ``described`` is what a late fault says of
    the call. With a ``key`` that stands for all arguments and their addresses, the stream remembers the Call as long as
    it has the descriptors, for ``relaunch``.
    """
    with stream.lock:
        call = Call(operator, stream.descriptors.native(arguments), described)
        if key is not None:
            stream.descriptors.calls[key] = call
        relaunch(call, stream, [argument.buffer for argument in arguments if type(argument) is DeviceArray])
    if device.blocking:
        stream.synchronize()


def relaunch(call: Call, stream: Stream, buffers: Sequence[DeviceBuffer]) -> None:
    """Launches the call on its stream, and does not wait; ``buffers`` hold the memory that it uses."""
    operator, arguments, described = call
    with stream.lock:
        executor = stream.executors.get(operator)
        if executor is None:
            executor = stream.executors[operator] = Executor(stream.device, operator, arguments)
        executor.take(arguments)
        stream.mark()
        # Before the launch: an interrupt behind it must not free what the kernel uses.
        stream.retain(*buffers)
        try:
            executor.size()
            executor.place(stream)
            executor.run()
        except BaseException:
            executor.close()
            raise
        stream.launched(operator, described)


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
        self._descriptors = Descriptors(device)
        self._native = self._descriptors.native(arguments)
        self._executor = executor = Executor(device, operator, self._native)
        super().__init__(device, lambda owner: executor.close())
        self.returned: object = None
        """What ``run`` gives back: the results of the launch, for who asked for it."""
        self._flight: object = None
        self._misplaced: set[int] = set()
        self._room = 0
        executor.size()
        executor.make_repeatable()

    @property
    def is_repeatable(self) -> bool:
        return self._executor.is_repeatable

    @property
    def tensors(self) -> tuple[int, ...]:
        pairs = zip(self._arguments, self._native, strict=True)
        return tuple(handle for argument, handle in pairs if hasattr(argument, "buffer"))

    @property
    def executor(self) -> int | None:
        return self._executor.handle if self.is_repeatable else None

    def run(self) -> object:
        """Queues the call on its stream. Raises as ``launch`` does, ClosedError after ``close``."""
        stream, executor = self.stream, self._executor
        with stream.lock:
            if stream.flight is not self._flight:
                self._retain()
            if not executor.is_repeatable:
                executor.size()
                if executor.workspace_size > self._room:
                    self._retain()
            executor.run()
            stream.launched(self.operator, self._described)
            returned = self.returned
        if self.device.blocking:
            stream.synchronize()
        return returned

    def point(self, arrays: Mapping[int, DeviceArray], returned: object) -> None:
        """Puts others of equal shape, dtype and strides in the place of arguments, by position, from the next launch
        on: that sees all of them, as it gives the descriptors their addresses before anything else."""
        with self.stream.lock:
            arguments = list(self._arguments)
            for position, array in arrays.items():
                arguments[position] = _Moved(array.buffer, array.ptr, arguments[position].layout)
            self._misplaced |= arrays.keys()
            self._flight = None
            self._arguments = arguments
            self.returned = returned

    def close(self) -> None:
        """Waits for queued launches if they share a repeatable executor, then gives it back. Idempotent."""
        if self.is_repeatable:
            self.close_after(lambda: self.device.settle(self))
        else:
            super().close()

    def release(self) -> None:
        self._flight = None
        super().release()
        self._descriptors.close()

    def _retain(self) -> None:
        """What the call uses, until the stream has passed what is queued before the next mark."""
        self.require_open()
        stream = self.stream
        stream.mark()
        self._executor.place(stream)
        self._room = self._executor.workspace_size
        buffers = [argument.buffer for argument in self._arguments if hasattr(argument, "buffer")]
        for buffer in buffers:
            buffer.require_open()
        self._place_descriptors()
        stream.retain(self, *buffers)
        self._flight = stream.flight

    def _place_descriptors(self) -> None:
        """If this fails nothing is launched, and the next launch sets all addresses again."""
        for position in self._misplaced:
            argument, tensor = self._arguments[position], self._native[position]
            # The descriptor keeps its offset: the storage is moved so that the first element is the array's.
            base = argument.ptr - argument.layout.offset
            if self.is_repeatable:
                self.device.call("aclSetTensorAddr", self._executor.handle, position, tensor, base)
            else:
                self.device.call("aclSetRawTensorAddr", tensor, base)
        self._misplaced = set()


class _Moved(NamedTuple):
    """An argument whose memory is another than that of the array its descriptor was made of."""

    buffer: DeviceBuffer
    ptr: int
    layout: TensorLayout
    """Of the array that the descriptor was made of."""
