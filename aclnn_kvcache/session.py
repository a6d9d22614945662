# SPDX-License-Identifier: Apache-2.0
"""The public face: a device, its stream, its memory, and the operators as methods."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import BY_DTYPE, hint_for, name_of
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.native.revisions import QKV
from aclnn_kvcache.ops import qkv_rms_norm_rope_cache_with_k_scale as qkv
from aclnn_kvcache.ops import scatter_pa_kv_cache_with_k_scale as scatter
from aclnn_kvcache.ops.plan import Plan
from aclnn_kvcache.ops.qkv_rms_norm_rope_cache_with_k_scale import (
    Attributes,
    qkv_rms_norm_rope_cache_with_k_scale,
)
from aclnn_kvcache.ops.same_arguments import arguments_of
from aclnn_kvcache.ops.scatter_pa_kv_cache_with_k_scale import scatter_pa_kv_cache_with_k_scale
from aclnn_kvcache.runtime import memory
from aclnn_kvcache.runtime.device import BLOCKING, EXIT_PATIENCE, Device
from aclnn_kvcache.runtime.event import Event
from aclnn_kvcache.runtime.memory import DeviceArray, DeviceBuffer
from aclnn_kvcache.runtime.reports import Report, take_reports
from aclnn_kvcache.runtime.stream import Stream
from aclnn_kvcache.runtime.switches import switch
from aclnn_kvcache.runtime.unheard import tell_beside

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library


class Session:
    """A device of a backend, opened for calls.

    Use it as a context manager, or call ``close``. ``stream`` is the stream that calls are queued on unless they name
    another. A session may be used from any thread; each call binds the device to the calling thread and puts back what
    was bound before, if anything was. Calls on one stream run in the order in which they were made; the order of calls
    from several threads is theirs to arrange. Closing waits for calls of other threads; later ones get ClosedError. A
    session does not survive a fork.
    """

    def __init__(
        self,
        backend: str = "auto",
        device: int = 0,
        *,
        library_dir: str | os.PathLike[str] | None = None,
        qkv_abi: str | None = None,
        blocking: bool | None = None,
        record: str | os.PathLike[str] | Literal[False] | None = None,
        record_failing_only: bool | None = None,
    ) -> None:
        """Opens a device.

        ``backend``: "cann", "simulator", or "auto", which takes CANN and never falls back to the bundled simulator.
        ``device``: index among the devices visible to the process. ``library_dir``: the one folder to take the
        libraries from. ``qkv_abi``: "A", "B" or "C", the revision of the fused operator, where no header installed
        beside its library tells it; the bundled simulator has all three, and is "A" unless this says otherwise. The
        same for the whole process (or environment variable ACLNN_KVCACHE_QKV_ABI).
        ``blocking``: each call waits for its own work, so that a fault of the device is told by the call that caused it
        and not by a later synchronise; for debugging (or environment variable ACLNN_KVCACHE_BLOCKING=1).
        ``record``: a folder that every call, and every launch of a plan, is kept in, as a bundle with everything it
        needs to be made again; with ``record_failing_only`` only those that fail. None is environment variable
        ACLNN_KVCACHE_RECORD, and ACLNN_KVCACHE_RECORD_FAILING=1; False keeps nothing whatever they say. The arrays are
        copied before each call, and each call is waited for, so that a fault is raised by the call that has it. Calls
        that cannot be recorded are made all the same, with a RecordWarning.

        Raises LibraryNotFoundError, LibraryConflictError, DeviceUnavailableError, ForkedProcessError, ArgumentError.
        """
        from aclnn_kvcache.bundle.recorder import recorder_of  # not on import of the package: it takes a while

        index = _integer("device", device, "an index among the visible devices", range(2**31))
        from aclnn_kvcache.native.library import load  # here, as only who opens a session needs it

        self._library = load(backend, library_dir, qkv_abi)
        self._device = Device(self._library, index, blocking=switch("blocking", blocking, BLOCKING))
        try:
            self.stream = Stream(self._device)
            self._recorder = recorder_of(self._device, record, record_failing_only, os.environ)
        except BaseException:
            self._device.close()
            raise

    @property
    def backend(self) -> str:
        """ "cann" or "simulator": which libraries these are, whatever was asked for."""
        return self._library.backend

    @property
    def device(self) -> int:
        """Index of the device among those visible to the process."""
        return self._device.id

    @property
    def libraries(self) -> tuple[str, ...]:
        """Paths of the native libraries opened so far."""
        return self._library.paths

    def library_of(self, function: str) -> str:
        """Path of the library that exports a C function, such as an operator's ``aclnn...GetWorkspaceSize``.

        Raises SymbolNotFoundError if none does, AbiMismatchError if it takes other arguments than it is called with,
        ArgumentError for a function that this package does not call.
        """
        from aclnn_kvcache.native.prototypes import declarations

        if function not in declarations().prototypes:
            raise ArgumentError("function", "a C function that this package calls", repr(function))
        return self._library.binding(function)[0]

    @property
    def qkv_abi(self) -> str:
        """ "A", "B" or "C": the revision of the fused operator in force, by the header installed beside its library or
        as stated.

        Raises AbiMismatchError if neither tells it or the two contradict each other, SymbolNotFoundError if no library
        has the operator.
        """
        _, binding = self._library.binding(QKV)
        return str(binding.revision)

    @property
    def cann_version(self) -> str:
        """The version of the CANN runtime, or "unknown"."""
        from aclnn_kvcache.native.version import cann_version

        return cann_version(self._library)

    @property
    def soc_name(self) -> str:
        """CANN's name of the product, such as ``Ascend950PR_9599``. Raises ClosedError."""
        with self._device.bound():
            return (self._library.aclrtGetSocName() or b"unknown").decode()

    @property
    def library(self) -> Library:
        """The loaded libraries: C functions by name."""
        return self._library

    def reports(self) -> list[Report]:
        """What the checks of the simulator found since the last time that anybody asked, oldest first; empty on CANN.

        A report is a named tuple: ``check``, ``kind``, ``function``, ``text``, ``sequence``, ``device``, ``stream``,
        ``thread``. They are those of the process, whichever session they are about, and never change what a call does
        or raises: ask when the work is done. Leaks are found when ACL ends, so a closed session answers too. Only the
        check "api" is on unless environment variable ACLSIM_CHECK says otherwise ("all", or a comma list of mem, init,
        race, sync, api, leak) before the process opens its first session, or ``library.aclsim_set_checks(b"all")``
        later. Reports also go to standard error, or to the file that ACLSIM_REPORT names.
        """
        return take_reports(self._library)

    def bound(self) -> AbstractContextManager[None]:
        """``with session.bound():`` makes the device current in this thread for C calls of one's own."""
        return self._device.bound()

    @property
    def device_memory(self) -> tuple[int, int]:
        """Bytes of device memory: free, and in all. Raises ClosedError, AclError."""
        return memory.free_and_total(self._device)

    @property
    def closed(self) -> bool:
        """Whether the session was closed."""
        return self._device.closed

    def close(self) -> None:
        """Waits for queued work and gives everything back: arrays, events, streams, the device, ACL. Idempotent.

        Raises DeviceFaultError if queued work had failed and nobody synchronised for it, after giving everything back.
        At the end of a ``with`` block that another exception ends, that failure is a note on the exception; of a
        session that is open at the end of the interpreter, or collected, ``sys.unraisablehook`` tells it.
        """
        self._device.close()

    def abandon(self) -> None:
        """Gives a device that hangs back at once: queued work is dropped, and the session is closed.

        Every other user of the device in this process loses it too: end the process soon.
        """
        self._device.abandon()

    def __enter__(self) -> Session:
        self.stream.require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        tell_beside(error, lambda: self._device.close(EXIT_PATIENCE if interrupted else None), f"closing {self!r}")

    # ---- memory, streams, events ----

    def array(self, host: np.ndarray[Any, Any]) -> DeviceArray:
        """A dense device copy of a host array, whatever the strides of that.

        Raises ArgumentError for anything but an array of a dtype that CANN has, OutOfDeviceMemory.
        """
        if not isinstance(host, np.ndarray) or isinstance(host, np.ma.MaskedArray):
            raise ArgumentError("host", "a numpy.ndarray", type(host).__name__, "nothing is converted behind your back")
        _require_known(host.dtype, "host")
        return memory.upload(self._device, host)

    def empty(self, shape: int | Sequence[int], dtype: Any) -> DeviceArray:
        """A dense device array with undefined contents. Raises ArgumentError, OutOfDeviceMemory."""
        return memory.empty(self._device, _extents("shape", shape), _dtype(dtype))

    def borrow_array(
        self,
        pointer: int,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        strides: Sequence[int] | None = None,
        owner: object = None,
    ) -> DeviceArray:
        """An array over device memory of somebody else, which is never freed here.

        ``pointer`` is the start of the allocation (a multiple of 32 bytes), ``shape`` and ``strides`` (in bytes, dense
        by default) what of it is used: slice the result for less. ``owner`` is kept alive as long as the array.
        Raises ArgumentError.
        """
        address = _integer("pointer", pointer, "a device address", range(1, 2**64))
        if address % memory.ALIGNMENT:
            raise ArgumentError(
                "pointer",
                f"the start of an allocation, a multiple of {memory.ALIGNMENT} bytes",
                f"{address:#x}",
                "borrow the allocation from its start and slice the result",
            )
        extents, kind = _extents("shape", shape), _dtype(dtype)
        steps = [step * kind.itemsize for step in layout.dense_strides(extents)]
        if strides is not None:
            steps = _extents("strides", strides)
        if len(steps) != len(extents):
            raise ArgumentError("strides", f"{len(extents)} byte counts, one per axis", repr(strides))
        low, high = layout.bounds(extents, steps)
        nbytes = high - 1 + kind.itemsize - low if high > low else 0
        return DeviceArray(DeviceBuffer(self._device, nbytes, address, owner), extents, kind, steps)

    def create_stream(self) -> Stream:
        """A new stream of this device; ``session.stream`` is there from the start. Raises AclError if none is left."""
        return Stream(self._device)

    def borrow_stream(self, handle: int) -> Stream:
        """A stream of somebody else (an ``aclrtStream`` as an integer) on this device, never destroyed here.

        Calls are ordered after what its owner has really queued: flush a framework's own launch queue first. A handle
        that is stale shows at the first use (ContextError, or AclnnInnerError at a launch), in releases before 9.1 as a
        crash. Raises ArgumentError.
        """
        return Stream(self._device, _integer("handle", handle, "an aclrtStream as an integer", range(1, 2**64)))

    def create_event(self) -> Event:
        """A new event, which can be recorded in a stream and waited for. Raises AclError if there are none."""
        return Event(self._device)

    # ---- operators ----

    def scatter_pa_kv_cache_with_k_scale(
        self,
        key: Any,
        value: Any,
        key_cache: Any,
        value_cache: Any,
        slot_mapping: Any,
        key_scale: Any,
        key_scale_cache: Any,
        *,
        cache_layout: str | None = None,
        padding: str = "error",
        stream: Stream | None = None,
    ) -> None:
        """Moves key and value rows and key scales into a paged cache, in place.

        ==================  ====================================  ===================================
        key, value          [T, N, Dk], [T, N, Dv]                float8_e4m3fn or float8_e5m2
        key_cache           [B, N, S, Dk]                         as key; changed
        value_cache         [B, N, S, Dv]                         as key; changed
        slot_mapping        [T]                                   int32 or int64; slot = block * S + offset
        key_scale           [T, N]                                float32
        key_scale_cache     [B, N, S, 1]                          float32; changed
        ==================  ====================================  ===================================

        T tokens, N heads, B blocks of S slots, head sizes Dk and Dv. All four FP8 arrays have one dtype. Bytes are
        moved unchanged, NaN patterns included. Rows of the caches that no slot names are left as they are. T = 0 does
        nothing.

        All arrays on the host: the call uploads, runs, waits and writes the caches back into the given arrays, whatever
        their strides. All arrays on the device: nothing is copied, and the call returns when it is queued on the stream
        (``session.stream`` by default). Slot values are checked where they are on the host. On the device the operator
        skips slots below 0 or from B * S on; but with few tokens it computes in 32 bits, and an int64 slot of 2**32 or
        more goes to the slot of its lower half. What duplicate slots leave behind is undefined.

        ``padding``: "error" refuses every slot out of range, "skip" lets -1 through, whose rows the operator skips.
        ``cache_layout``: None or "BNBD".

        Raises, before anything is launched or changed, AclnnParameterError for tensors, slots and layout that break the
        operator's rules, naming the argument, what was expected and what came; ArgumentError for what is no array of
        this session, a mix of host and device, a read-only cache, or another option than those above; ClosedError.
        Afterwards AclnnInnerError, DeviceFaultError, OutOfDeviceMemory; host caches are then unchanged (only an
        interrupt while the results are written may leave some of them written and others not).
        Source of the rules: phase 1 of the operator in CANN 9.1 and, for what that lets through, its kernel.
        """
        arguments = {
            "key": key,
            "value": value,
            "key_cache": key_cache,
            "value_cache": value_cache,
            "slot_mapping": slot_mapping,
            "key_scale": key_scale,
            "key_scale_cache": key_scale_cache,
        }
        with self._device.bound():
            on = self._stream(stream)
            call = partial(scatter_pa_kv_cache_with_k_scale, self._device, on, arguments, cache_layout, padding)
            if self._recorder is None:
                call()
            else:
                options = {"cache_layout": cache_layout, "padding": padding}
                self._recorder.record("scatter_pa_kv_cache_with_k_scale", options, on, arguments, call)

    @arguments_of(scatter_pa_kv_cache_with_k_scale)
    def prepare_scatter_pa_kv_cache_with_k_scale(self, given: dict[str, Any]) -> Plan:
        """A plan of a call: ``plan()`` launches it, again and again, for the cost of little more than CANN's own.

        Takes the arguments of ``scatter_pa_kv_cache_with_k_scale``, on the device; slot_mapping may be a host array,
        which is checked and copied, as are those that ``plan.update(slot_mapping=...)`` brings. In a session that
        records, each launch is kept as a call on device arrays, and waited for. Raises as the call does, and
        ArgumentError for other host arrays and for a call that launches nothing.
        """
        with self._device.bound():
            stream, options = self._stream(given.pop("stream")), (given.pop("cache_layout"), given.pop("padding"))
            return self._recorded(scatter.prepare(self._device, stream, given, *options))

    def qkv_rms_norm_rope_cache_with_k_scale(
        self,
        qkv: Any,
        q_gamma: Any,
        k_gamma: Any,
        cos_sin: Any,
        slot_mapping: Any,
        k_cache: Any,
        v_cache: Any,
        k_scale_cache: Any,
        query_start_loc: Any,
        seq_lens: Any,
        rotation: Any,
        v_scale: Any,
        *,
        head_nums: Sequence[int],
        layout_qkv: str | None = "TND",
        layout_q_out: str | None = "NTD",
        epsilon: float = 1e-6,
        mrope_position: Any = None,
        mrope_section: Sequence[int] | None = None,
        q_quant_mode: str | None = None,
        k_quant_mode: str | None = None,
        q_out: Any = None,
        q_scale: Any = None,
        stream: Stream | None = None,
    ) -> tuple[Any, Any]:
        """Splits fused QKV, normalises, rotates and quantises Q and K, scales and quantises V, writes K and V in place.

        ==================  ======================================  ==========================================
        qkv                 [T, Nq+Nk+Nv, 128], NTD: axes 0, 1      bfloat16; heads in the order Q, K, V
                            exchanged
        q_gamma, k_gamma    [128]                                   float32
        cos_sin             [positions, 128]                        float32; 64 columns of cos, then 64 of sin
        slot_mapping        [T]                                     int32; slot = block * S + offset, each once
        k_cache, v_cache    [B, Nk, S, 128], [B, Nv, S, 128]        float8_e4m3fn; changed. M-RoPE: k_cache int8
        k_scale_cache       [B, Nk, S, 1]                           float32; changed. Mx: 4 scales, float8_e8m0fnu
        query_start_loc     [batches + 1]                           int32; from 0 to T, never falling. RoPE only
        seq_lens            [batches]                               int32; tokens with history, of each batch. RoPE
                                                                    only
        rotation            [128, 128]                              bfloat16; out = row @ rotation. Not in Mx
        v_scale             [Nv]; M-RoPE, Mx: [Nv, 128]             float32; V is multiplied by it
        mrope_position      [T, 3]                                  int32; rows of cos_sin on the axes T, H and W.
                                                                    M-RoPE and Mx only
        q_out               [Nq, T, 128], TND: [T, Nq, 128]         float8_e4m3fn, M-RoPE: bfloat16; made if None
        q_scale             [Nq, T], TND: [T, Nq]; Mx: [T, Nq, 4]   float32, Mx: float8_e8m0fnu; made if None. Not
                                                                    in M-RoPE
        ==================  ======================================  ==========================================

        What is not in a scene is None, and to be passed: query_start_loc, seq_lens and rotation have no default. The
        scenes, by the revision of the operator that is in force (``qkv_abi``):

        ======  =========  ==============  ============  ===================  ===================
        scene   revisions  mrope_position  q_quant_mode  k_quant_mode         layouts
        ======  =========  ==============  ============  ===================  ===================
        RoPE    A, B, C    None            None          None                 all below
        M-RoPE  B, C       given           "NoQuant"     None                 "TND" and "TND"
        Mx      C          given           "Mx"          "Mx"                 "TND" and "TND"
        ======  =========  ==============  ============  ===================  ===================

        None of a mode is "PerTokenPerHead". ``mrope_section``: (T, H, W), given where mrope_position is; of the 64
        lanes lane 3 * r + 1 turns by the H position for r < H, lane 3 * r + 2 by the W position for r < W (at most 21
        each), the others by the T position.

        ``head_nums``: (Nq, Nk, Nv) with Nk = Nv; in revision A Nq + Nk <= 128 and Nq + Nk + Nv <= 160, in B and C
        Nq = 8 * Nk and Nq <= 64. C takes at most 262144 tokens. ``layout_qkv``, ``layout_q_out``: "TND" and "TND",
        "TND" and "NTD", or "NTD" and "NTD"; None is the default. The position of a token in RoPE is its index in its
        batch plus the batch's history. Every slot must be inside the cache: this operator skips none, and writes
        outside the cache for -1.

        Arrays on the host or on the device as for scatter, and as asynchronous. Values (slots, batches, positions) are
        checked where they are on the host. On the host all arrays may be any views. On the device K and V caches may be
        views with equal first three strides and a dense last axis (in C with axes that lie inside one another in their
        order), inputs any views, which the operator copies, and outputs must be dense.

        Returns (q_out, q_scale), None for the latter in M-RoPE. Raises AclnnParameterError naming the argument, what
        was expected and what came, and for what the revision has not the one that has it, before anything is launched
        or changed; AbiMismatchError where the installed operator takes other arguments, or nothing tells which;
        otherwise as scatter. Source of the rules: phase 1 of the three revisions in CANN 9.1, and their kernels.
        """
        arguments = {
            "qkv": qkv,
            "q_gamma": q_gamma,
            "k_gamma": k_gamma,
            "cos_sin": cos_sin,
            "slot_mapping": slot_mapping,
            "k_cache": k_cache,
            "v_cache": v_cache,
            "k_scale_cache": k_scale_cache,
            "query_start_loc": query_start_loc,
            "seq_lens": seq_lens,
            "rotation": rotation,
            "v_scale": v_scale,
            "mrope_position": mrope_position,
            "q_out": q_out,
            "q_scale": q_scale,
        }
        attributes = Attributes.of(
            head_nums=head_nums,
            layout_qkv=layout_qkv,
            layout_q_out=layout_q_out,
            epsilon=epsilon,
            mrope_section=mrope_section,
            q_quant_mode=q_quant_mode,
            k_quant_mode=k_quant_mode,
        )
        with self._device.bound():
            on = self._stream(stream)
            call = partial(qkv_rms_norm_rope_cache_with_k_scale, self._device, on, arguments, attributes)
            if self._recorder is None:
                return call()
            named = attributes._asdict()
            return self._recorder.record("qkv_rms_norm_rope_cache_with_k_scale", named, on, arguments, call)

    @arguments_of(qkv_rms_norm_rope_cache_with_k_scale)
    def prepare_qkv_rms_norm_rope_cache_with_k_scale(self, given: dict[str, Any]) -> Plan:
        """A plan of a call of the fused operator, as ``prepare_scatter_pa_kv_cache_with_k_scale`` makes one of scatter.

        slot_mapping, query_start_loc, seq_lens and mrope_position may be host arrays. ``plan()`` returns (q_out,
        q_scale), the same arrays each time; None for the latter in M-RoPE.
        """
        with self._device.bound():
            stream = self._stream(given.pop("stream"))
            attributes = Attributes.of(**{name: given.pop(name) for name in Attributes._fields})
            return self._recorded(qkv.prepare(self._device, stream, given, attributes))

    def _recorded(self, plan: Plan) -> Plan:
        if self._recorder is not None:
            plan.record_by(self._recorder.record)
        return plan

    def _stream(self, stream: Stream | None) -> Stream:
        chosen = self.stream if stream is None else stream
        if not isinstance(chosen, Stream):
            raise ArgumentError("stream", "a Stream", type(stream).__name__, "session.borrow_stream(handle) makes one")
        if chosen.device is not self._device:
            raise ArgumentError("stream", "a stream of this session", "one of another session")
        chosen.require_open()
        return chosen

    def __repr__(self) -> str:
        return f"<Session {self.backend} device {self.device}{' closed' if self.closed else ''}>"


def _integer(argument: str, value: object, meaning: str, allowed: range) -> int:
    """The value as a Python integer. ctypes would cut one that does not fit."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or int(value) not in allowed:
        raise ArgumentError(argument, f"{meaning}, from {allowed.start} to {allowed.stop - 1}", repr(value))
    return int(value)


def _extents(argument: str, values: object) -> list[int]:
    parts = [values] if isinstance(values, (int, np.integer)) else values
    if not isinstance(parts, (list, tuple)):
        raise ArgumentError(argument, "an integer or a sequence of integers", repr(values))
    return [_integer(argument, part, "integers that are not negative", range(2**63)) for part in parts]


def _dtype(dtype: Any) -> np.dtype[Any]:
    try:
        kind: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentError("dtype", "a NumPy or ml_dtypes dtype", repr(dtype)) from error
    if dtype is None:  # NumPy takes it for float64
        raise ArgumentError("dtype", "a NumPy or ml_dtypes dtype", "None")
    _require_known(kind, "dtype")
    return kind


def _require_known(dtype: np.dtype[Any], argument: str) -> None:
    if dtype not in BY_DTYPE:
        raise ArgumentError(
            argument, "a dtype that CANN has, in native byte order", name_of(dtype), hint_for(dtype, BY_DTYPE)
        )
