# SPDX-License-Identifier: Apache-2.0
"""Device memory, descriptors and the scatter operator's two calls, on typed C functions."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

NAMES = ("key", "value", "keyCacheRef", "valueCacheRef", "slotMapping", "keyScale", "keyScaleCacheRef")
CACHES = ("keyCacheRef", "valueCacheRef", "keyScaleCacheRef")
UNTOUCHED_SIZE = 0xDEADBEEFDEADBEEF
UNTOUCHED_EXECUTOR = 0xFEEDFACE
WORKSPACE = 16_777_728

E4M3FN, E5M2, FLOAT, INT32, INT64, ND = 36, 35, 0, 3, 9, 2


def int64s(values: Sequence[int] | None) -> Any:
    return None if values is None else (ctypes.c_int64 * len(values))(*values)


class Functions:
    """The simulator's functions, each looked up once."""

    def __init__(self, sim: Any) -> None:
        self._sim = sim
        self.constants = sim.constants

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._sim, name)
        setattr(self, name, function)
        return function


class Device:
    """Device 0 for one test, with ACL initialised: what it made is given back by ``close``."""

    operator = "aclnnScatterPaKvCacheWithKScale"
    _open = 0  # devices of all threads: the first initialises ACL, the last finalises it
    _lock = threading.Lock()

    def __init__(self, sim: Any, init: bool = True) -> None:
        self.sim = Functions(sim)
        self.memory: list[int] = []
        self.tensors: list[int] = []
        self._init = init
        with Device._lock:
            if Device._open == 0 and init:
                assert self.sim.aclInit(None) == 0
            Device._open += init
        assert self.sim.aclrtSetDevice(0) == 0
        stream = ctypes.c_void_p()
        assert self.sim.aclrtCreateStream(ctypes.byref(stream)) == 0
        self.stream = stream.value
        self.message()

    def close(self) -> None:
        self.sim.aclrtSynchronizeStream(self.stream)
        assert self.sim.aclrtDestroyStream(self.stream) == 0
        for tensor in self.tensors:
            assert self.sim.aclDestroyTensor(tensor) == 0
        for address in self.memory:
            assert self.sim.aclrtFree(address) == 0
        assert self.sim.aclrtResetDevice(0) == 0
        with Device._lock:
            Device._open -= self._init
            if Device._open == 0 and self._init:
                assert self.sim.aclFinalizeReference(None) == 0

    def message(self) -> str | None:
        text = self.sim.aclGetRecentErrMsg()
        return None if text is None else text.decode()

    def counter(self, name: str) -> int:
        value: int = self.sim.aclsim_counter(self.sim.constants[name])
        return value

    def alloc(self, nbytes: int) -> int:
        address = ctypes.c_void_p()
        assert self.sim.aclrtMalloc(ctypes.byref(address), nbytes, 0) == 0
        assert address.value is not None
        self.memory.append(address.value)
        return address.value

    def upload(self, array: np.ndarray) -> int:
        array = np.ascontiguousarray(array)
        address = self.alloc(max(array.nbytes, 1))
        self.write(address, array)
        return address

    def write(self, address: int, array: np.ndarray) -> None:
        array = np.ascontiguousarray(array)
        kind = self.sim.constants["ACL_MEMCPY_HOST_TO_DEVICE"]
        assert self.sim.aclrtMemcpy(address, array.nbytes, array.ctypes.data, array.nbytes, kind) == 0

    def read(self, address: int, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(np.ascontiguousarray(like))
        kind = self.sim.constants["ACL_MEMCPY_DEVICE_TO_HOST"]
        assert self.sim.aclrtMemcpy(out.ctypes.data, out.nbytes, address, out.nbytes, kind) == 0
        return out

    def tensor(
        self,
        dims: Sequence[int],
        dtype: int,
        base: int | None,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        storage: Sequence[int] | None = None,
        fmt: int = ND,
    ) -> int:
        stored = dims if storage is None else storage
        handle = self.sim.aclCreateTensor(
            int64s(dims), len(dims), dtype, int64s(strides), offset, fmt, int64s(stored), len(stored), base
        )
        assert handle is not None
        self.tensors.append(handle)
        return int(handle)

    def destroy(self, tensor: int) -> None:
        self.tensors.remove(tensor)
        assert self.sim.aclDestroyTensor(tensor) == 0

    def arguments(self, tensors: Sequence[int | None], attributes: Any) -> Sequence[Any]:
        """What phase 1 takes before its two out-parameters."""
        return (*tensors, attributes)

    def phase1(self, tensors: Sequence[int | None], attributes: Any = b"BNBD") -> tuple[int, int, int]:
        size = ctypes.c_uint64(UNTOUCHED_SIZE)
        executor = ctypes.c_void_p(UNTOUCHED_EXECUTOR)
        function = getattr(self.sim, f"{self.operator}GetWorkspaceSize")
        status = function(*self.arguments(tensors, attributes), ctypes.byref(size), ctypes.byref(executor))
        if status != 0:
            assert (size.value, executor.value) == (UNTOUCHED_SIZE, UNTOUCHED_EXECUTOR)
        return status, size.value, executor.value or 0

    def discard(self, executor: int) -> None:
        assert self.sim.aclDestroyAclOpExecutor(executor) == 0

    def workspace_size(self, tensors: Sequence[int | None], attributes: Any = b"BNBD") -> int:
        status, size, executor = self.phase1(tensors, attributes)
        assert status == 0
        self.discard(executor)
        return size

    def phase2(self, executor: int | None, size: int = 0, workspace: int | None = None) -> int:
        status: int = getattr(self.sim, self.operator)(workspace, size, executor, self.stream)
        return status

    def synchronize(self) -> int:
        status: int = self.sim.aclrtSynchronizeStream(self.stream)
        return status

    def run(self, tensors: Sequence[int | None], attributes: Any = b"BNBD") -> int:
        """Both phases with a workspace as asked for, and a synchronise, whose status it returns."""
        status, size, executor = self.phase1(tensors, attributes)
        assert status == 0, self.message()
        workspace = self.alloc(size) if size else None
        assert self.phase2(executor, size, workspace) == 0
        return self.synchronize()


class Call:
    """A dense call of a size; tensors by name, each replaceable by one of another view."""

    def __init__(
        self,
        device: Device,
        tokens: int = 3,
        heads: int = 2,
        key_head: int = 8,
        value_head: int = 8,
        blocks: int = 2,
        block_size: int = 4,
        slots: Sequence[int] = (0, 5, 7),
        dtype: int = E4M3FN,
        slot_dtype: int = INT32,
    ) -> None:
        self.device = device
        random = np.random.default_rng(tokens * 1000 + heads)
        self.key = random.integers(0, 256, (tokens, heads, key_head), dtype=np.uint8)
        self.value = random.integers(0, 256, (tokens, heads, value_head), dtype=np.uint8)
        self.key_cache = np.full((blocks, heads, block_size, key_head), 0xAA, np.uint8)
        self.value_cache = np.full((blocks, heads, block_size, value_head), 0x55, np.uint8)
        self.slots = np.array(slots, np.int32 if slot_dtype == INT32 else np.int64)
        self.scale = random.standard_normal((tokens, heads)).astype(np.float32)
        self.scale_cache = np.full((blocks, heads, block_size, 1), -1, np.float32)
        self.arrays = dict(
            zip(
                NAMES,
                (self.key, self.value, self.key_cache, self.value_cache, self.slots, self.scale, self.scale_cache),
                strict=True,
            )
        )
        dtypes = (dtype, dtype, dtype, dtype, slot_dtype, FLOAT, FLOAT)
        self.dtypes = dict(zip(NAMES, dtypes, strict=True))
        self.addresses = {name: device.upload(array) for name, array in self.arrays.items()}
        self.tensors = {
            name: device.tensor(array.shape, self.dtypes[name], self.addresses[name])
            for name, array in self.arrays.items()
        }

    def view(
        self,
        name: str,
        base: np.ndarray,
        strides: Sequence[int],
        offset: int = 0,
        dims: Sequence[int] | None = None,
    ) -> int:
        """Makes a tensor a view of the flat contents of ``base``; returns the device address of the base."""
        address = self.device.upload(base)
        self.view_at(name, address, base.size, strides, offset, dims)
        return address

    def view_at(
        self,
        name: str,
        address: int,
        elements: int,
        strides: Sequence[int],
        offset: int = 0,
        dims: Sequence[int] | None = None,
    ) -> None:
        shape = self.arrays[name].shape if dims is None else dims
        self.device.destroy(self.tensors[name])
        self.tensors[name] = self.device.tensor(shape, self.dtypes[name], address, strides, offset, [elements])

    @property
    def handles(self) -> list[int]:
        return [self.tensors[name] for name in NAMES]

    def run(self) -> int:
        return self.device.run(self.handles)

    def caches(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return (
            self.device.read(self.addresses["keyCacheRef"], self.key_cache),
            self.device.read(self.addresses["valueCacheRef"], self.value_cache),
            self.device.read(self.addresses["keyScaleCacheRef"], self.scale_cache),
        )

    def expected(self, tokens: Sequence[int] | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the dense caches hold after these tokens went to their slots, by the plain loop."""
        key_cache, value_cache = self.key_cache.copy(), self.value_cache.copy()
        scale_cache = self.scale_cache.copy()
        size = key_cache.shape[2]
        for token in range(len(self.slots)) if tokens is None else tokens:
            block, row = divmod(int(self.slots[token]), size)
            key_cache[block, :, row] = self.key[token]
            value_cache[block, :, row] = self.value[token]
            scale_cache[block, :, row, 0] = self.scale[token]
        return key_cache, value_cache, scale_cache

    def check(self, tokens: Sequence[int] | None = None) -> None:
        for got, wanted in zip(self.caches(), self.expected(tokens), strict=True):
            np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))
