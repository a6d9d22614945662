# SPDX-License-Identifier: Apache-2.0
"""Copies: checks in their order, who waits for whom, and memory that goes away."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_calls import D2D, D2H, DEFAULT, H2BUF2D, H2D, H2H, Runtime

SIZE = 64
COPIES: list[tuple[str, tuple[Any, ...]]] = [("aclrtMemcpy", ()), ("aclrtMemcpyAsync", (None,))]


class Buffers:
    def __init__(self, rt: Runtime) -> None:
        self.device, self.other = rt.malloc(SIZE), rt.malloc(SIZE)
        self.pinned = rt.malloc_host(SIZE)
        self.pageable = ctypes.create_string_buffer(SIZE)


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.drop_everything()


@pytest.fixture
def at(rt: Runtime) -> Iterator[Buffers]:
    buffers = Buffers(rt)
    yield buffers
    rt.sim.aclsim_release_streams()
    rt.code("aclrtSynchronizeDevice")
    for address in buffers.device, buffers.other:
        rt.code("aclrtFree", address)
    rt.code("aclrtFreeHost", buffers.pinned)


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize(("name", "rest"), COPIES)
def test_checks_in_order(rt: Runtime, at: Buffers, name: str, rest: tuple[Any, ...]) -> None:
    def copy(dst: Any, most: int, src: Any, count: int, kind: int) -> int:
        return rt.code(name, dst, most, src, count, kind, *rest)

    assert copy(None, 0, None, 0, 99) == 0
    assert copy(None, 0, at.pinned, 1, 99) == 100000
    assert copy(at.device, 0, None, 1, 99) == 100000
    assert copy(at.device, 0, at.pinned, 1, 6) == 100000
    assert copy(at.device, 0, at.pinned, 1, H2D) == 107000
    assert copy(at.device, 7, at.pinned, 8, H2D) == 107000
    assert "expected at most destMax, which is 7" in rt.message()
    assert copy(at.device, 8, at.device, 8, D2D) == 0
    assert copy(at.device, 65, at.pinned, 65, H2D) == 107000
    assert copy(at.device + 60, 8, at.pinned, 8, H2D) == 107000
    assert copy(at.device, 8, at.pinned + 60, 8, H2D) == 107000
    assert copy(at.pinned, 8, at.device - 4, 8, D2H) == 107000


@pytest.mark.provokes("api:copy_kind_mismatch")
def test_synchronous_copies_take_any_kind(rt: Runtime, at: Buffers) -> None:
    for kind in range(6):
        at.pageable.raw = bytes([kind + 1]) * SIZE
        rt.ok("aclrtMemcpy", at.device, SIZE, at.pageable, SIZE, kind)
        rt.ok("aclrtMemcpy", at.other, SIZE, at.device, SIZE, kind)
        rt.ok("aclrtMemcpy", at.pinned, SIZE, at.other, SIZE, kind)
        assert ctypes.string_at(at.pinned, SIZE) == bytes([kind + 1]) * SIZE
    rt.ok("aclrtMemcpy", at.pinned, SIZE, b"h" * SIZE, SIZE, H2H)
    assert ctypes.string_at(at.pinned, SIZE) == b"h" * SIZE


@pytest.mark.provokes("sync:read_before_synchronise")
def test_synchronous_copies_are_not_ordered_with_streams(rt: Runtime, at: Buffers) -> None:
    rt.write(at.device, b"a" * SIZE)
    ctypes.memset(at.pinned, ord("b"), SIZE)
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemcpyAsync", at.device, SIZE, at.pinned, SIZE, H2D, None)
    assert rt.read(at.device, SIZE) == b"a" * SIZE
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeStream", None)
    assert rt.read(at.device, SIZE) == b"b" * SIZE


@pytest.mark.parametrize("name", ["aclrtMemcpyAsync", "aclrtMemcpyAsyncWithCondition"])
def test_pinned_memory_is_read_when_the_task_runs(rt: Runtime, at: Buffers, name: str) -> None:
    ctypes.memset(at.pinned, 1, SIZE)
    rt.sim.aclsim_hold_streams()
    rt.ok(name, at.device, SIZE, at.pinned, SIZE, H2D, None)
    ctypes.memset(at.pinned, 2, SIZE)
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeStream", None)
    assert rt.read(at.device, SIZE) == b"\2" * SIZE


@pytest.mark.usefixtures("reports")
def test_staged_copies_read_at_once(rt: Runtime, at: Buffers) -> None:
    rt.sim.aclsim_hold_streams()
    at.pageable.raw = b"x" * SIZE
    rt.ok("aclrtMemcpyAsync", at.device, SIZE, at.pageable, SIZE, H2BUF2D, None)
    at.pageable.raw = b"y" * SIZE
    assert rt.read(at.device, SIZE) != b"x" * SIZE
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeStream", None)
    assert rt.read(at.device, SIZE) == b"x" * SIZE


def test_pageable_copies_wait_for_the_stream_and_return_when_done(rt: Runtime, at: Buffers) -> None:
    ctypes.memset(at.pinned, 3, SIZE)
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemcpyAsync", at.device, SIZE, at.pinned, SIZE, H2D, None)
    timer = threading.Timer(0.1, rt.sim.aclsim_release_streams)
    timer.start()
    rt.ok("aclrtMemcpyAsync", at.pageable, SIZE, at.device, SIZE, D2H, None)
    assert at.pageable.raw == b"\3" * SIZE
    timer.join()
    at.pageable.raw = b"\4" * SIZE
    rt.ok("aclrtMemcpyAsync", at.device, SIZE, at.pageable, SIZE, H2D, None)
    assert rt.read(at.device, SIZE) == b"\4" * SIZE


def test_kinds_of_asynchronous_copies(rt: Runtime, at: Buffers) -> None:
    places = {"host": at.pinned, "pageable": at.pageable, "device": at.device, "other": at.other}
    fits = {("device", "host"): {H2D, H2BUF2D}, ("host", "device"): {D2H}, ("device", "other"): {D2D}}
    for (dst, src), kinds in fits.items():
        for kind in range(1, 6):
            expected = 0 if kind in kinds | {DEFAULT} else 107000
            assert rt.code("aclrtMemcpyAsync", places[dst], SIZE, places[src], SIZE, kind, None) == expected
        assert rt.code("aclrtMemcpyAsync", places[dst], SIZE, places[src], SIZE, H2H, None) == 207000
    for kind in range(6):
        assert rt.code("aclrtMemcpyAsync", at.pageable, SIZE, at.pinned, SIZE, kind, None) == 207000


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize("gone", ["device", "pinned"])
def test_memory_freed_before_the_copy_runs_is_a_fault(rt: Runtime, at: Buffers, gone: str) -> None:
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemcpyAsync", at.device, SIZE, at.pinned, SIZE, H2D, None)
    rt.ok("aclrtMemsetAsync", at.other, SIZE, 9, SIZE, None)
    rt.ok("aclrtFree" if gone == "device" else "aclrtFreeHost", getattr(at, gone))
    rt.sim.aclsim_release_streams()
    assert rt.code("aclrtSynchronizeStream", None) == 507899
    assert "was freed before the copy ran" in rt.message()
    rt.ok("aclrtSynchronizeStream", None)
    assert rt.read(at.other, SIZE) == b"\x09" * SIZE


@pytest.mark.usefixtures("reports")
def test_a_fill_of_freed_memory_is_a_fault(rt: Runtime, at: Buffers) -> None:
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemsetAsync", at.device, SIZE, 9, SIZE, None)
    rt.ok("aclrtFree", at.device)
    rt.sim.aclsim_release_streams()
    assert rt.code("aclrtSynchronizeDevice") == 507899


@pytest.mark.usefixtures("reports")
def test_a_pageable_copy_tells_the_fault_of_its_stream(rt: Runtime, at: Buffers) -> None:
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemsetAsync", at.device, SIZE, 9, SIZE, None)
    rt.ok("aclrtFree", at.device)
    rt.sim.aclsim_release_streams()
    assert rt.code("aclrtMemcpyAsync", at.pageable, SIZE, at.other, SIZE, D2H, None) == 507899


def test_devices_reach_each_other_when_enabled(rt: Runtime, at: Buffers) -> None:
    able = ctypes.c_int32()
    rt.ok("aclrtDeviceCanAccessPeer", ctypes.byref(able), 0, 1)
    assert able.value == 1
    rt.ok("aclrtSetDevice", 1)
    far = rt.malloc(SIZE)
    rt.ok("aclrtResetDevice", 1)
    rt.ok("aclrtSetDevice", 0)
    assert rt.code("aclrtDeviceEnablePeerAccess", 0, 0) == 107001
    assert rt.code("aclrtDeviceEnablePeerAccess", 1, 1) == 107000
    assert rt.code("aclrtMemcpy", far, SIZE, at.device, SIZE, D2D) in (0, 107000)
    rt.ok("aclrtDeviceEnablePeerAccess", 1, 0)
    rt.write(at.device, b"p" * SIZE)
    rt.ok("aclrtMemcpy", far, SIZE, at.device, SIZE, D2D)
    assert rt.read(far, SIZE) == b"p" * SIZE
    rt.ok("aclrtFree", far)


@pytest.mark.usefixtures("reports")
def test_rows(rt: Runtime, at: Buffers) -> None:
    rt.write(at.device, b"." * SIZE)
    at.pageable.raw = b"0123456789" + bytes(SIZE - 10)
    rt.ok("aclrtMemcpy2d", at.device, 16, at.pageable, 4, 2, 3, H2D)
    assert rt.read(at.device, 40) == b"01" + b"." * 14 + b"45" + b"." * 14 + b"89" + b"." * 6
    assert rt.code("aclrtMemcpy2d", None, 0, None, 0, 0, 3, 99) == 0
    assert rt.code("aclrtMemcpy2d", at.device, 16, at.pageable, 4, 5, 3, H2D) == 100000
    assert rt.code("aclrtMemcpy2d", at.device, 16, at.pageable, 16, 16, 5, H2D) == 107000
    assert rt.code("aclrtMemcpy2d", at.device, 2**62, at.pageable, 2**62, 16, 5, H2D) == 107000
    assert rt.code("aclrtMemcpy2d", at.device, 16, at.other, 16, 16, 2, D2D) == 207000
    assert rt.code("aclrtMemcpy2d", at.device, 16, at.other, 16, 16, 2, DEFAULT) == 207000
    assert rt.code("aclrtMemcpy2d", at.device, 16, at.pageable, 16, 16, 2, D2H) == 107000
    assert rt.code("aclrtMemcpy2dAsync", at.device, 16, at.pinned, 16, 16, 5_242_881, H2D, None) == 107000
    ctypes.memset(at.pinned, ord("z"), SIZE)
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemcpy2dAsync", at.device, 32, at.pinned, 32, 8, 2, H2D, None)
    assert rt.read(at.device, 2) == b"01"
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeStream", None)
    assert rt.read(at.device, 44)[:8] == rt.read(at.device, 44)[32:40] == b"z" * 8
