# SPDX-License-Identifier: Apache-2.0
"""Devices and contexts: who is current where, and what ends what."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runtime_calls import Runtime

POINTER = ctypes.c_void_p


@pytest.fixture
def rt(sim: Any) -> Runtime:
    runtime = Runtime(sim)
    runtime.message()
    return runtime


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def device(rt: Runtime) -> tuple[int, int]:
    number = ctypes.c_int32(-7)
    return rt.code("aclrtGetDevice", ctypes.byref(number)), number.value


@pytest.mark.parametrize("number", [-1, 2, 100])
def test_devices_that_do_not_exist(rt: Runtime, number: int) -> None:
    context = POINTER()
    assert rt.code("aclrtSetDevice", number) == 107001
    assert rt.code("aclrtResetDevice", number) == 107001
    assert rt.code("aclrtCreateContext", ctypes.byref(context), number) == 107001
    assert rt.code("aclrtGetPrimaryCtxState", number, None, ctypes.byref(ctypes.c_int32())) == 107001
    assert f"is {number}; expected 0 to 1" in rt.message()


def test_a_thread_starts_without_a_context(rt: Runtime) -> None:
    rt.ok("aclrtSetDevice", 0)
    assert device(rt) == (0, 0)
    assert in_thread(lambda: device(rt)) == (107002, -7)
    rt.ok("aclrtResetDevice", 0)
    assert device(rt) == (107002, -7)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aclrtMalloc", (ctypes.byref(POINTER()), 32, 0)),
        ("aclrtMallocHost", (ctypes.byref(POINTER()), 32)),
        ("aclrtCreateStream", (ctypes.byref(POINTER()),)),
        ("aclrtCreateEvent", (ctypes.byref(POINTER()),)),
        ("aclrtMemcpy", (64, 8, 128, 8, 0)),
        ("aclrtMemcpyAsync", (64, 8, 128, 8, 0, None)),
        ("aclrtMemset", (64, 8, 0, 8)),
        ("aclrtSynchronizeStream", (None,)),
        ("aclrtSynchronizeDevice", ()),
        ("aclrtGetCurrentContext", (ctypes.byref(POINTER()),)),
        ("aclrtGetMemInfo", (1, ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))),
    ],
)
def test_what_needs_a_context(rt: Runtime, name: str, arguments: tuple[Any, ...]) -> None:
    code, message = in_thread(lambda: (rt.code(name, *arguments), rt.message()))
    assert code == 107002
    assert f"{name} failed with 107002" in message


def test_the_primary_context_is_counted(rt: Runtime) -> None:
    def active() -> int:
        return int(rt.out("aclrtGetPrimaryCtxState", ctypes.c_int32, 0, None, first=False))

    assert active() == 0
    rt.ok("aclrtSetDevice", 0)
    first = rt.out("aclrtGetCurrentContext", POINTER)
    in_thread(lambda: rt.ok("aclrtSetDevice", 0))
    assert rt.counter("ACLSIM_LIVE_CONTEXTS") == 1
    rt.ok("aclrtResetDevice", 0)
    assert (active(), rt.out("aclrtGetCurrentContext", POINTER)) == (1, first)
    assert rt.code("aclrtDestroyContext", first) == 107002
    rt.ok("aclrtResetDevice", 0)
    assert active() == 0
    assert rt.code("aclrtSetCurrentContext", first) == 107002
    assert rt.code("aclrtResetDevice", 0) == 507007


def test_force_drops_all_references(rt: Runtime) -> None:
    rt.ok("aclrtSetDevice", 1)
    rt.ok("aclrtSetDevice", 1)
    rt.ok("aclrtResetDeviceForce", 1)
    assert rt.code("aclrtResetDeviceForce", 1) == 507007
    assert rt.code("aclrtResetDevice", 1) == 507007


@pytest.mark.usefixtures("reports")
def test_force_drops_work_and_memory(rt: Runtime) -> None:
    rt.ok("aclrtSetDevice", 0)
    stream, memory, host = rt.stream(), rt.malloc(64), rt.malloc_host()
    rt.ok("aclrtStreamWaitEvent", rt.stream(), rt.event())
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtMemcpyAsync", memory, 64, host, 64, 1, stream)
    rt.ok("aclrtResetDeviceForce", 0)
    rt.sim.aclsim_release_streams()
    assert rt.code("aclrtFree", memory) == 107000
    rt.ok("aclrtFreeHost", host)


def test_explicit_contexts(rt: Runtime) -> None:
    assert rt.code("aclrtCreateContext", None, 0) == 100000
    assert rt.code("aclrtDestroyContext", None) == 100000
    assert rt.code("aclrtSetCurrentContext", None) == 100000
    assert "(EH0002)" in rt.message()
    zero = rt.out("aclrtCreateContext", POINTER, 0)
    one = rt.out("aclrtCreateContext", POINTER, 1)
    assert device(rt) == (0, 1)
    rt.ok("aclrtSetCurrentContext", zero)
    assert device(rt) == (0, 0)
    assert in_thread(lambda: (rt.code("aclrtSetCurrentContext", one), device(rt))) == (0, (0, 1))
    rt.ok("aclrtDestroyContext", zero)
    assert device(rt)[0] == 107002
    assert rt.code("aclrtDestroyContext", zero) == 107002
    assert rt.code("aclrtSetCurrentContext", zero) == 107002
    assert rt.code("aclrtSetCurrentContext", 4096) == 107002
    rt.ok("aclrtDestroyContext", one)


def test_a_stream_works_in_its_context_only(rt: Runtime) -> None:
    first = rt.out("aclrtCreateContext", POINTER, 0)
    stream, event = rt.stream(), rt.event()
    second = rt.out("aclrtCreateContext", POINTER, 0)
    assert rt.code("aclrtRecordEvent", event, stream) == 107003
    assert rt.code("aclrtStreamWaitEvent", stream, event) == 107003
    assert rt.code("aclrtDestroyStream", stream) == 107003
    assert "(EE1010)" in rt.message()
    rt.ok("aclrtSynchronizeStream", stream)
    rt.ok("aclrtRecordEvent", event, None)
    rt.ok("aclrtSetCurrentContext", first)
    rt.ok("aclrtDestroyEvent", event)
    rt.ok("aclrtDestroyStream", stream)
    for context in first, second:
        rt.ok("aclrtDestroyContext", context)


@pytest.mark.usefixtures("reports")
def test_a_reset_ends_everything_of_the_device_after_its_work(rt: Runtime) -> None:
    explicit = rt.out("aclrtCreateContext", POINTER, 0)
    rt.ok("aclrtSetDevice", 0)
    stream, event = rt.stream(), rt.event()
    default = rt.out("aclrtCtxGetCurrentDefaultStream", POINTER)
    memory, host = rt.malloc(64), rt.malloc_host()
    ctypes.memset(host, 7, 64)
    rt.ok("aclrtMemcpyAsync", memory, 64, host, 64, 1, stream)
    rt.ok("aclrtResetDevice", 0)
    for handle in stream, default:
        assert rt.code("aclrtSynchronizeStream", handle) == 107017
    assert rt.code("aclrtDestroyEvent", event) == 107017
    assert rt.code("aclrtSetCurrentContext", explicit) == 107002
    rt.ok("aclrtSetDevice", 0)
    assert rt.read(memory, 64) == b"\7" * 64
    rt.ok("aclrtFree", memory)
    rt.ok("aclrtFreeHost", host)
    rt.ok("aclrtResetDevice", 0)


@pytest.mark.usefixtures("reports")
def test_a_reset_ends_waits_for_events_that_nobody_can_record(rt: Runtime) -> None:
    rt.ok("aclrtSetDevice", 0)
    rt.ok("aclrtStreamWaitEvent", rt.stream(), rt.event())
    rt.ok("aclrtResetDevice", 0)


def test_options_are_unset_until_set(rt: Runtime) -> None:
    number = ctypes.c_int64()
    context = rt.out("aclrtCreateContext", POINTER, 0)
    assert rt.code("aclrtCtxGetSysParamOpt", 0, ctypes.byref(number)) == 107021
    rt.ok("aclrtCtxSetSysParamOpt", 0, 2)
    assert rt.out("aclrtCtxGetSysParamOpt", ctypes.c_int64, 0, first=False) == 2
    assert rt.code("aclrtCtxSetSysParamOpt", 3, 1) == 107000
    assert rt.code("aclrtGetSysParamOpt", 2, ctypes.byref(number)) == 107021
    rt.ok("aclrtDestroyContext", context)


def test_threads_share_and_churn_contexts(rt: Runtime) -> None:
    def churn() -> list[int]:
        codes = []
        for _ in range(30):
            context, stream = POINTER(), POINTER()
            codes.append(rt.code("aclrtCreateContext", ctypes.byref(context), 1))
            codes.append(rt.code("aclrtCreateStream", ctypes.byref(stream)))
            codes.append(rt.code("aclrtSynchronizeStream", stream))
            codes.append(rt.code("aclrtDestroyContext", context))
            codes.append(0 if rt.code("aclrtDestroyStream", stream) == 107002 else 1)
        return codes

    results: list[list[int]] = []
    threads = [threading.Thread(target=lambda: results.append(churn())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[0] * 150] * 6
