# SPDX-License-Identifier: Apache-2.0
"""Launches below the package's own: loops in C, and ctypes as it is usually written."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aclnn_kvcache.dtypes import BY_DTYPE
from aclnn_kvcache.errors import PHASE_1, check
from aclnn_kvcache.native.library import Library, open_helper
from aclnn_kvcache.rules.finding import ND
from aclnn_kvcache.runtime.memory import DeviceArray

OPERATOR = "aclnnScatterPaKvCacheWithKScale"


class Description(ctypes.Structure):
    _fields_ = [
        ("dims", ctypes.c_void_p),
        ("rank", ctypes.c_uint64),
        ("dtype", ctypes.c_int),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("format", ctypes.c_int),
        ("storage", ctypes.c_void_p),
        ("storage_rank", ctypes.c_uint64),
        ("address", ctypes.c_void_p),
    ]


def compiled() -> Any:
    """The loops in C, or None where there is no C compiler. Raises CalledProcessError if it cannot compile them."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    source = Path(__file__).with_name("loops.c")
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "loops.so"))
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", path, str(source)], check=True, capture_output=True)
        return open_helper(path)


class Loops:
    """Scatter on the given arrays, as often as asked in one call."""

    def __init__(
        self, code: Any, library: Library, arrays: Sequence[DeviceArray], workspace: DeviceArray, stream: int | None
    ) -> None:
        self._code, self._library, self._arrays = code, library, arrays
        self._workspace, self._stream = workspace, ctypes.c_void_p(stream)
        self._functions = {
            name: ctypes.cast(getattr(library, name), ctypes.c_void_p)
            for name in ("aclCreateTensor", "aclDestroyTensor", OPERATOR + PHASE_1, OPERATOR)
        }

    def repeatable(self, executor: int, times: int) -> None:
        size = ctypes.c_uint64(self._workspace.nbytes)
        self._run("bench_repeatable", [OPERATOR], self._pointer, size, ctypes.c_void_p(executor), times)

    def two_phase(self, tensors: Sequence[int], times: int) -> None:
        handles = (ctypes.c_void_p * len(tensors))(*tensors)
        self._run("bench_two_phase", [OPERATOR + PHASE_1, OPERATOR], handles, self._pointer, times)

    def with_descriptors(self, times: int) -> None:
        rows = [array.layout.create_arguments for array in self._arrays]
        described = (Description * len(rows))(*map(_description, rows, self._arrays))
        self._run("bench_with_descriptors", list(self._functions), described, self._pointer, times)

    @property
    def _pointer(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._workspace.ptr)

    def _run(self, name: str, functions: Sequence[str], *arguments: Any) -> None:
        *given, times = arguments
        passed = [self._functions[function] for function in functions]
        status = getattr(self._code, name)(*passed, *given, self._stream, ctypes.c_long(times))
        check(status, f"{OPERATOR} in a loop of C", self._library.aclGetRecentErrMsg)


def _description(row: tuple[Any, ...], array: DeviceArray) -> Description:
    dims, rank, dtype, strides, offset, number, storage, storage_rank = row
    addresses = [ctypes.addressof(values) for values in (dims, strides, storage)]
    return Description(
        addresses[0], rank, dtype, addresses[1], offset, number, addresses[2], storage_rank, array.buffer.pointer
    )


def usual_handles(library: Library) -> dict[str, Any]:
    """The libraries of descriptors and of the operator, without any types."""
    return {"aclnn": library.handle_of("aclCreateTensor"), "aclnnop": library.handle_of(OPERATOR)}


def usual_ctypes(handles: dict[str, Any], arrays: Sequence[DeviceArray], workspace: DeviceArray, stream: int) -> None:
    """A launch as it is usually written: functions by attribute, their types set and arguments boxed at each call,
    shape and stride arrays made anew, descriptors made and destroyed, and every step named for a log."""
    tensors = []
    for array in arrays:
        steps = [step // array.dtype.itemsize for step in array.strides]
        dims, strides = (ctypes.c_int64 * len(steps))(*array.shape), (ctypes.c_int64 * len(steps))(*steps)
        storage = (ctypes.c_int64 * 1)(array.buffer.nbytes // array.dtype.itemsize)
        tensors.append(
            _usual(
                handles["aclnn"],
                "aclCreateTensor",
                ctypes.c_void_p,
                dims,
                ctypes.c_uint64(len(steps)),
                ctypes.c_int(BY_DTYPE[array.dtype].acl_value),
                strides,
                ctypes.c_int64(array.offset // array.dtype.itemsize),
                ctypes.c_int(ND),
                storage,
                ctypes.c_uint64(1),
                ctypes.c_void_p(array.buffer.pointer),
            )
        )
    size, executor = ctypes.c_uint64(0), ctypes.c_void_p(0)
    boxed = [ctypes.c_void_p(tensor) for tensor in tensors]
    references = ctypes.byref(size), ctypes.byref(executor)
    _usual(handles["aclnnop"], OPERATOR + PHASE_1, ctypes.c_int, *boxed, ctypes.c_char_p(None), *references)
    where, on = ctypes.c_void_p(workspace.ptr), ctypes.c_void_p(stream)
    _usual(handles["aclnnop"], OPERATOR, ctypes.c_int, where, size, executor, on)
    for tensor in boxed:
        _usual(handles["aclnn"], "aclDestroyTensor", ctypes.c_int, tensor)


def _usual(handle: Any, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(handle, name)
    function.restype = result
    text = f"calling {name} with {len(arguments)} arguments"
    value = function(*arguments)
    if result is ctypes.c_int and value != 0:
        raise RuntimeError(f"{text}: {value}")
    return value
