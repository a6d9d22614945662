# SPDX-License-Identifier: Apache-2.0
"""Allocations: sizes, limits, contents, ends, and what the runtime says about addresses."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from runtime_calls import Runtime

POINTER = ctypes.c_void_p
MALLOCS = ("aclrtMalloc", "aclrtMallocAlign32", "aclrtMallocCached")
GIB = 1 << 30
PAGE = mmap.PAGESIZE
HOST, DEVICE, UNREGISTERED = 0, 1, 2


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.drop_everything()


def location(rt: Runtime, address: Any) -> tuple[int, int]:
    attributes = (ctypes.c_uint32 * 7)()
    rt.ok("aclrtPointerGetAttributes", address, attributes)
    return attributes[1], attributes[0]


def free_memory(rt: Runtime, attr: int = 1) -> tuple[int, int]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    rt.ok("aclrtGetMemInfo", attr, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


@pytest.mark.parametrize("name", MALLOCS)
@pytest.mark.parametrize(("size", "taken"), [(1, 32), (31, 32), (32, 32), (33, 64), (1000, 1024)])
def test_sizes_are_rounded_up_to_32(rt: Runtime, name: str, size: int, taken: int) -> None:
    address = rt.out(name, POINTER, size, 0)
    assert rt.counter("ACLSIM_LIVE_DEVICE_BYTES") == taken
    assert address % 64 == 0
    rt.ok("aclrtFree", address)


def test_sizes_with_a_configuration_stay(rt: Runtime) -> None:
    address = rt.out("aclrtMallocWithCfg", POINTER, 33, 0, None)
    assert rt.counter("ACLSIM_LIVE_DEVICE_BYTES") == 33
    rt.ok("aclrtFree", address)


@pytest.mark.parametrize("name", [*MALLOCS, "aclrtMallocWithCfg"])
def test_refused_sizes(rt: Runtime, name: str) -> None:
    address = POINTER(17)
    rest = (0, None) if name.endswith("Cfg") else (0,)
    assert rt.code(name, None, 32, *rest) == 100000
    assert rt.code(name, ctypes.byref(address), 0, *rest) == 100000
    assert rt.code(name, ctypes.byref(address), 2**64 - 1, *rest) == (207001 if rest[1:] else 100000)
    assert rt.code(name, ctypes.byref(address), 9 * GIB, *rest) == 207001
    assert address.value == 17


def test_a_device_has_8_gib(rt: Runtime) -> None:
    assert free_memory(rt) == (8 * GIB, 8 * GIB)
    parts = [rt.malloc(GIB) for _ in range(8)]
    assert free_memory(rt) == (0, 8 * GIB)
    assert rt.code("aclrtMalloc", ctypes.byref(POINTER()), 1, 0) == 207001
    assert "(EE1021)" in rt.message()
    rt.ok("aclrtSetDevice", 1)
    other = rt.malloc(GIB)
    assert (location(rt, other), location(rt, parts[0])) == ((DEVICE, 1), (DEVICE, 0))
    rt.ok("aclrtFree", other)
    rt.ok("aclrtResetDevice", 1)
    rt.ok("aclrtSetDevice", 0)
    rt.ok("aclrtFree", parts[3])
    parts[3] = rt.malloc(GIB)
    for part in parts:
        rt.ok("aclrtFree", part)


def test_memory_info_arguments(rt: Runtime) -> None:
    number = ctypes.byref(ctypes.c_size_t())
    assert rt.code("aclrtGetMemInfo", 18, number, number) == 107016
    assert rt.code("aclrtGetMemInfo", 1, None, number) == 100000
    assert free_memory(rt, 0) == (0, 0)
    assert free_memory(rt, 17) == (8 * GIB, 8 * GIB)


@pytest.mark.usefixtures("reports")
def test_fresh_memory_is_not_zero(rt: Runtime) -> None:
    size = 1 << 20
    address = rt.malloc(size)
    rt.ok("aclrtMemset", address, size, 0, size)
    rt.ok("aclrtFree", address)
    address = rt.malloc(size)
    assert set(rt.read(address, 65536)) == {0xA5}
    assert set(rt.read(address + size - 4096, 4096)) == {0xA5}
    rt.ok("aclrtFree", address)


@pytest.mark.usefixtures("reports")
def test_allocations_are_apart(rt: Runtime) -> None:
    addresses = sorted(rt.malloc(32) for _ in range(200))
    assert all(b - a >= 512 + 32 for a, b in pairwise(addresses))
    for address in addresses:
        assert rt.code("aclrtMemset", address + 32, 1, 0, 1) == 107000
        assert rt.code("aclrtMemset", address - 1, 1, 0, 1) == 107000
        rt.ok("aclrtFree", address)


@pytest.mark.usefixtures("reports")
def test_frees_that_are_none(rt: Runtime) -> None:
    address, host = rt.malloc(64), rt.malloc_host()
    for wrong in address + 32, address - 32, host, 4096:
        assert rt.code("aclrtFree", wrong) == 107000
    rt.ok("aclrtFree", address)
    assert rt.code("aclrtFree", address) == 107000
    assert rt.code("aclrtFree", None) == 100000
    assert rt.code("aclrtFreeWithDevSync", address) == 107000
    for wrong in address, host + 64, 4096:
        assert rt.code("aclrtFreeHost", wrong) == 107000
    assert rt.code("aclrtFreeHost", None) == 100000
    rt.ok("aclrtFreeHostWithDevSync", host)
    assert rt.code("aclrtFreeHost", host) == 107000


def test_pinned_memory(rt: Runtime) -> None:
    assert rt.code("aclrtMallocHost", None, 8) == 100000
    assert rt.code("aclrtMallocHost", ctypes.byref(POINTER()), 0) == 100000
    address = rt.malloc_host(100)
    assert address % 64 == 0
    ctypes.memset(address, 1, 100)
    assert location(rt, address + 99) == (HOST, 0)
    rt.ok("aclrtFreeHost", address)


def test_where_addresses_are(rt: Runtime) -> None:
    attributes = (ctypes.c_uint32 * 7)()
    address = rt.malloc(64)
    assert location(rt, address + 63) == (DEVICE, 0)
    assert location(rt, address + 64)[0] == UNREGISTERED
    assert location(rt, ctypes.create_string_buffer(8))[0] == UNREGISTERED
    assert rt.code("aclrtPointerGetAttributes", None, attributes) == 100000
    assert rt.code("aclrtPointerGetAttributes", address, None) == 100000
    rt.ok("aclrtFree", address)
    assert location(rt, address)[0] == UNREGISTERED


def test_registration(rt: Runtime) -> None:
    pages = mmap.mmap(-1, 4 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    assert rt.code("aclrtHostRegister", address + 1, PAGE, 0, ctypes.byref(POINTER())) == 107000
    assert rt.code("aclrtHostRegister", address, PAGE - 1, 0, ctypes.byref(POINTER())) == 107000
    assert rt.code("aclrtHostUnregister", address) == 507911
    seen = POINTER()
    rt.ok("aclrtHostRegister", address, 2 * PAGE, 0, ctypes.byref(seen))
    assert location(rt, address) == (HOST, 0)
    assert rt.code("aclrtHostRegister", address + PAGE, PAGE, 0, ctypes.byref(POINTER())) == 507910
    pointer = POINTER()
    rt.ok("aclrtHostGetDevicePointer", address, ctypes.byref(pointer), 0)
    assert pointer.value == seen.value
    rt.ok("aclrtHostRegisterV2", address + 2 * PAGE, PAGE, 0x10000000)
    assert rt.code("aclrtHostGetDevicePointer", address + 2 * PAGE, ctypes.byref(pointer), 0) == 507911
    for start in address, address + 2 * PAGE:
        rt.ok("aclrtHostUnregister", start)
    assert location(rt, address)[0] == UNREGISTERED


@pytest.mark.usefixtures("reports")
def test_fill(rt: Runtime) -> None:
    address, host = rt.malloc(64), rt.malloc_host(64)
    rt.ok("aclrtMemset", address, 64, 0x1FF, 64)
    assert rt.read(address, 64) == b"\xff" * 64
    rt.ok("aclrtMemsetD32", address, 64, 0x01020304, 4)
    assert rt.read(address, 20) == b"\4\3\2\1" * 4 + b"\xff" * 4
    rt.ok("aclrtMemset", host, 64, 5, 64)
    assert ctypes.string_at(host, 64) == b"\5" * 64
    plain = ctypes.create_string_buffer(64)
    assert rt.code("aclrtMemset", plain, 64, 0, 64) == 107000
    assert rt.code("aclrtMemset", address, 65, 0, 65) == 107000
    assert rt.code("aclrtMemset", address, 8, 0, 9) == 107000
    assert rt.code("aclrtMemset", None, 8, 0, 8) == 100000
    assert rt.code("aclrtMemset", None, 0, 0, 0) == 0
    assert rt.code("aclrtMemsetAsync", None, 0, 0, 0, 4096) == 0
    assert rt.code("aclrtMemsetAsync", address, 8, 0, 9, None) == 107000
    assert rt.code("aclrtMemsetD32", address + 2, 60, 0, 1) == 107008
    assert rt.code("aclrtMemsetD32", address, 60, 0, 16) == 107000
    rt.ok("aclrtMemsetAsync", address, 64, 6, 64, None)
    rt.ok("aclrtSynchronizeStream", None)
    assert rt.read(address, 64) == b"\6" * 64
    rt.ok("aclrtFree", address)
    rt.ok("aclrtFreeHost", host)


def test_half_precision(rt: Runtime) -> None:
    sim = rt.sim
    for value, half in ((1.0, 0x3C00), (-2.5, 0xC100), (65504, 0x7BFF), (1e9, 0x7BFF), (6e-8, 1), (2049, 0x6800)):
        assert sim.aclFloatToFloat16(value) == half
    assert sim.aclFloat16ToFloat(0x7C00) == 65536.0
    assert sim.aclFloat16ToFloat(0x7E00) == 98304.0
    assert all(sim.aclFloatToFloat16(sim.aclFloat16ToFloat(bits)) == bits for bits in range(0, 0x7C00, 7))


@pytest.mark.parametrize(("dtype", "size"), [(-1, 0), (0, 4), (27, 2), (29, 1), (36, 1), (13, 0), (38, 8), (999, 8)])
def test_data_type_sizes(rt: Runtime, dtype: int, size: int) -> None:
    assert rt.sim.aclDataTypeSize(dtype) == size
