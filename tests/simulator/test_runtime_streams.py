# SPDX-License-Identifier: Apache-2.0
"""Streams: order, asynchrony, faults, timeouts and ends."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_calls import H2D, KERNEL_FAULT, Kernels, Runtime

POINTER = ctypes.c_void_p
COMPLETE, NOT_READY = 0, 1
CONTINUE, STOP = 0, 1


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.drop_everything()


@pytest.fixture
def kernels(rt: Runtime) -> Kernels:
    return Kernels(rt.sim)


def status(rt: Runtime, stream: int | None) -> int:
    return int(rt.out("aclrtStreamQuery", ctypes.c_int, stream, first=False))


@pytest.mark.provokes("api:destroyed_handle", "api:unknown_handle", "api:handle_of_another_kind")
def test_handles_that_are_no_live_stream(rt: Runtime) -> None:
    stream, event = rt.stream(), rt.event()
    rt.ok("aclrtDestroyStream", stream)
    for handle in stream, event, 4096, 0x5A20000000000000:
        assert rt.code("aclrtSynchronizeStream", handle) == 107017
        assert rt.code("aclrtRecordEvent", event, handle) == 107017
        assert rt.code("aclrtDestroyStream", handle) == 107017
    assert "(EE1017)" in rt.message()
    assert rt.code("aclrtDestroyStream", None) == 100000
    assert rt.code("aclrtDestroyStreamForce", None) == 100000
    assert rt.code("aclrtCreateStream", None) == 100000


def test_the_default_stream_stands_for_null(rt: Runtime) -> None:
    default = rt.out("aclrtCtxGetCurrentDefaultStream", POINTER)
    ids = [rt.out("aclrtStreamGetId", ctypes.c_int32, handle, first=False) for handle in (None, default)]
    assert ids[0] == ids[1]
    assert status(rt, None) == COMPLETE
    assert rt.code("aclrtDestroyStream", default) == 107000
    assert rt.counter("ACLSIM_LIVE_STREAMS") == 0


@pytest.mark.provokes("api:destroyed_handle")
def test_configuration(rt: Runtime) -> None:
    stream = rt.out("aclrtCreateStreamWithConfig", POINTER, 100, 3)
    assert rt.out("aclrtStreamGetPriority", ctypes.c_uint32, stream, first=False) == 7
    assert rt.out("aclrtStreamGetFlags", ctypes.c_uint32, stream, first=False) == 3
    least, greatest = ctypes.c_int32(), ctypes.c_int32()
    rt.ok("aclrtDeviceGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
    assert (least.value, greatest.value) == (7, 0)
    config = rt.sim.aclrtCreateStreamConfigHandle()
    rt.ok("aclrtSetStreamConfigOpt", config, 2, ctypes.byref(ctypes.c_size_t(1)), 8)
    rt.ok("aclrtSetStreamConfigOpt", config, 3, ctypes.byref(ctypes.c_uint32(2)), 4)
    assert rt.code("aclrtSetStreamConfigOpt", config, 4, ctypes.byref(ctypes.c_uint32(2)), 4) == 100000
    assert rt.code("aclrtSetStreamConfigOpt", config, 2, ctypes.byref(ctypes.c_uint32(2)), 4) == 100000
    other = rt.out("aclrtCreateStreamV2", POINTER, config)
    assert rt.out("aclrtStreamGetPriority", ctypes.c_uint32, other, first=False) == 2
    rt.ok("aclrtDestroyStreamConfigHandle", config)
    assert rt.code("aclrtDestroyStreamConfigHandle", config) == 107017
    assert rt.code("aclrtCreateStreamV2", ctypes.byref(POINTER()), config) == 107017


def test_streams_run_out(rt: Runtime) -> None:
    left = rt.out("aclrtGetStreamAvailableNum", ctypes.c_uint32)
    assert left == 1983
    streams = [rt.stream() for _ in range(left)]
    assert rt.code("aclrtCreateStream", ctypes.byref(POINTER())) == 207008
    for stream in streams:
        rt.ok("aclrtDestroyStream", stream)
    assert rt.out("aclrtGetStreamAvailableNum", ctypes.c_uint32) == 1983


def test_tasks_run_later_and_in_order(rt: Runtime, kernels: Kernels) -> None:
    order: list[int] = []
    stream = rt.stream()
    rt.sim.aclsim_hold_streams()
    launched = rt.counter("ACLSIM_KERNEL_LAUNCHES")
    for number in range(50):
        assert kernels.launch(stream, lambda _, n=number: order.append(n) or 0) == 0
    assert (order, status(rt, stream), kernels.released) == ([], NOT_READY, 0)
    assert rt.code("aclrtSynchronizeStreamWithTimeout", stream, 20) == 507046
    assert rt.code("aclrtSynchronizeDeviceWithTimeout", 20) == 507046
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeStreamWithTimeout", stream, 10_000)
    assert (order, status(rt, stream), kernels.released) == (list(range(50)), COMPLETE, 50)
    assert rt.counter("ACLSIM_KERNEL_LAUNCHES") == launched + 50


@pytest.mark.parametrize("timeout", [0, -2])
def test_timeouts_that_are_none(rt: Runtime, timeout: int) -> None:
    assert rt.code("aclrtSynchronizeStreamWithTimeout", None, timeout) == 107000
    assert rt.code("aclrtSynchronizeDeviceWithTimeout", timeout) == 107000
    assert rt.code("aclrtSynchronizeEventWithTimeout", rt.event(), timeout) == 107000
    rt.ok("aclrtSynchronizeStreamWithTimeout", None, -1)


@pytest.mark.provokes("sync:destroyed_in_flight")
def test_destroy_waits_and_force_drops(rt: Runtime, kernels: Kernels) -> None:
    ran: list[str] = []
    waited, dropped = rt.stream(), rt.stream()
    rt.sim.aclsim_hold_streams()
    for name, stream in (("waited", waited), ("dropped", dropped)):
        for _ in range(3):
            kernels.launch(stream, lambda _, n=name: ran.append(n) or 0)
    rt.ok("aclrtDestroyStreamForce", dropped)
    assert kernels.released == 3
    timer = threading.Timer(0.1, rt.sim.aclsim_release_streams)
    timer.start()
    rt.ok("aclrtDestroyStream", waited)
    timer.join()
    assert ran == ["waited"] * 3
    assert kernels.released == 6


def test_a_fault_is_told_once_and_later_work_runs(rt: Runtime, kernels: Kernels) -> None:
    ran: list[int] = []
    stream = rt.stream()
    kernels.fail(stream)
    kernels.fail(stream, 507015)
    kernels.launch(stream, lambda _: ran.append(1) or 0)
    assert rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
    message = rt.message()
    assert "(EZ2001)" in message
    assert "test_kernel" in message
    assert ran == [1]
    rt.ok("aclrtSynchronizeStream", stream)
    rt.ok("aclrtSynchronizeDevice")


def test_the_device_tells_faults_of_its_streams(rt: Runtime, kernels: Kernels) -> None:
    kernels.fail(rt.stream())
    kernels.fail(None, 507015)
    codes = [rt.code("aclrtSynchronizeDevice") for _ in range(3)]
    assert sorted(codes) == [0, 507015, KERNEL_FAULT]


def test_a_stream_that_stops_on_failure(rt: Runtime, kernels: Kernels) -> None:
    ran: list[int] = []
    stream, event, late = rt.stream(), rt.event(), rt.event()
    assert rt.code("aclrtSetStreamFailureMode", stream, 2) == 107000
    assert rt.code("aclrtSetStreamFailureMode", None, STOP) == 100000
    rt.ok("aclrtSetStreamFailureMode", stream, STOP)
    rt.sim.aclsim_hold_streams()
    kernels.fail(stream)
    kernels.launch(stream, lambda _: ran.append(1) or 0)
    rt.ok("aclrtRecordEvent", event, stream)
    rt.sim.aclsim_release_streams()
    for _ in range(2):
        assert rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
    assert (ran, kernels.released) == ([], 2)
    assert rt.code("aclrtStreamQuery", stream, ctypes.byref(ctypes.c_int())) == KERNEL_FAULT
    assert rt.code("aclrtRecordEvent", late, stream) == KERNEL_FAULT
    assert rt.code("aclrtStreamWaitEvent", stream, event) == KERNEL_FAULT
    assert kernels.launch(stream, lambda _: 0) == KERNEL_FAULT
    assert rt.code("aclrtSynchronizeDevice") == KERNEL_FAULT
    memory, host = rt.malloc(64), rt.malloc_host()
    assert rt.code("aclrtMemcpyAsync", memory, 64, host, 64, H2D, stream) == KERNEL_FAULT
    assert rt.code("aclrtMemsetAsync", memory, 64, 0, 64, stream) == KERNEL_FAULT
    rt.ok("aclrtSynchronizeEvent", event)
    rt.ok("aclrtDestroyStream", stream)
    rt.ok("aclrtFree", memory)
    rt.ok("aclrtFreeHost", host)


def test_the_callback_hears_of_kernel_faults(rt: Runtime, kernels: Kernels) -> None:
    heard: list[tuple[int, int, int]] = []
    stream = rt.stream()

    @ctypes.CFUNCTYPE(None, POINTER)
    def callback(info: int) -> None:
        heard.append(
            (
                rt.sim.aclrtGetErrorCodeFromExceptionInfo(info),
                rt.sim.aclrtGetStreamIdFromExceptionInfo(info),
                rt.sim.aclrtGetThreadIdFromExceptionInfo(info),
            )
        )
        assert threading.get_native_id() != threading.main_thread().native_id

    rt.ok("aclrtSetExceptionInfoCallback", callback)
    kernels.fail(stream)
    assert rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
    rt.ok("aclrtSetExceptionInfoCallback", None)
    kernels.fail(stream)
    assert rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
    number = rt.out("aclrtStreamGetId", ctypes.c_int32, stream, first=False)
    assert heard == [(KERNEL_FAULT, number, threading.main_thread().native_id)]
    assert rt.sim.aclrtGetErrorCodeFromExceptionInfo(None) == 0xFFFFFFFF


def test_streams_driven_from_the_device_answer_at_once(rt: Runtime, kernels: Kernels) -> None:
    stream = rt.out("aclrtCreateStreamWithConfig", POINTER, 0, 4)
    rt.sim.aclsim_hold_streams()
    kernels.launch(stream, lambda _: 0)
    rt.ok("aclrtSynchronizeStream", stream)
    assert status(rt, stream) == NOT_READY


def test_streams_run_side_by_side(rt: Runtime, kernels: Kernels) -> None:
    meeting = threading.Barrier(2, timeout=10)
    for stream in rt.stream(), rt.stream():
        kernels.launch(stream, lambda _: meeting.wait() * 0)
    rt.ok("aclrtSynchronizeDevice")


def test_many_threads_on_one_stream(rt: Runtime, kernels: Kernels) -> None:
    count: list[int] = []
    stream = rt.stream()
    context = rt.out("aclrtGetCurrentContext", POINTER)

    def launch() -> None:
        rt.ok("aclrtSetCurrentContext", context)
        for _ in range(50):
            kernels.launch(stream, lambda _: count.append(1) or 0)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rt.ok("aclrtSynchronizeStream", stream)
    assert len(count) == kernels.released == 200


@pytest.mark.provokes("api:destroyed_handle")
def test_of_two_threads_that_destroy_a_stream_one_does(rt: Runtime) -> None:
    context = rt.out("aclrtGetCurrentContext", POINTER)
    for _ in range(20):
        stream, codes, start = rt.stream(), [], threading.Barrier(4)

        def destroy(handle: int = stream, into: list[int] = codes, at: threading.Barrier = start) -> None:
            rt.ok("aclrtSetCurrentContext", context)
            at.wait()
            into.append(rt.code("aclrtDestroyStream", handle))

        threads = [threading.Thread(target=destroy) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(codes) == [0, 107017, 107017, 107017]


def test_a_wait_is_not_a_busy_one(rt: Runtime) -> None:
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtRecordEvent", rt.event(), None)
    before = time.process_time()
    assert rt.code("aclrtSynchronizeStreamWithTimeout", None, 200) == 507046
    assert time.process_time() - before < 0.15
