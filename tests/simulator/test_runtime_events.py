# SPDX-License-Identifier: Apache-2.0
"""Events of the three families."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_calls import D2D, H2D, Runtime, run_alone

PLAIN, WITH_FLAG, EX = "aclrtCreateEvent", "aclrtCreateEventWithFlag", "aclrtCreateEventExWithFlag"
FAMILIES = [(PLAIN,), (WITH_FLAG, 9), (EX, 9)]
SYNC, TIME_LINE = 1, 8


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.drop_everything()


def done(rt: Runtime, event: int) -> bool:
    return bool(rt.out("aclrtQueryEventStatus", ctypes.c_int, event, first=False))


@pytest.mark.parametrize("name", [WITH_FLAG, EX])
@pytest.mark.parametrize(("flag", "code"), [(0, 107000), (4, 107000), (0x81, 107000), (1, 0), (2, 0), (8, 0), (9, 0)])
def test_flags(rt: Runtime, name: str, flag: int, code: int) -> None:
    assert rt.code(name, ctypes.byref(ctypes.c_void_p()), flag) == code


@pytest.mark.provokes("api:destroyed_handle", "api:unknown_handle")
def test_null_and_stale(rt: Runtime) -> None:
    event = rt.event()
    rt.ok("aclrtDestroyEvent", event)
    for handle, code in ((None, 100000), (event, 107017), (4096, 107017)):
        assert rt.code("aclrtDestroyEvent", handle) == code
        assert rt.code("aclrtRecordEvent", handle, None) == code
        assert rt.code("aclrtSynchronizeEvent", handle) == code
        assert rt.code("aclrtStreamWaitEvent", None, handle) == code
        assert rt.code("aclrtQueryEventStatus", handle, ctypes.byref(ctypes.c_int())) == code
    assert rt.code(PLAIN, None) == 100000


@pytest.mark.parametrize("family", FAMILIES)
def test_status_before_and_after_the_record(rt: Runtime, family: tuple[Any, ...]) -> None:
    event = rt.event(*family)
    assert done(rt, event) is (family[0] == EX)
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtRecordEvent", event, None)
    assert not done(rt, event)
    assert rt.code("aclrtSynchronizeEventWithTimeout", event, 20) == 507047
    old = ctypes.c_int(9)
    assert rt.code("aclrtQueryEvent", event, ctypes.byref(old)) == (207000 if family[0] == EX else 0)
    assert old.value == (9 if family[0] == EX else 1)
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeEvent", event)
    assert done(rt, event)


def test_what_the_newest_family_lacks(rt: Runtime) -> None:
    event, number = rt.event(EX, SYNC), ctypes.byref(ctypes.c_int())
    assert rt.code("aclrtResetEvent", event, None) == 207000
    assert rt.code("aclrtQueryEvent", event, number) == 207000
    assert rt.code("aclrtQueryEventWaitStatus", event, number) == 207000


@pytest.mark.parametrize("family", FAMILIES)
def test_two_streams_ordered_by_an_event(rt: Runtime, family: tuple[Any, ...]) -> None:
    first, second, event = rt.stream(), rt.stream(), rt.event(*family)
    host, here, there = rt.malloc_host(1 << 20), rt.malloc(1 << 20), rt.malloc(1 << 20)
    for value in range(20):
        rt.sim.aclsim_hold_streams()
        ctypes.memset(host, value, 1 << 20)
        rt.ok("aclrtMemcpyAsync", here, 1 << 20, host, 1 << 20, H2D, first)
        rt.ok("aclrtRecordEvent", event, first)
        rt.ok("aclrtStreamWaitEvent", second, event)
        rt.ok("aclrtMemcpyAsync", there, 1 << 20, here, 1 << 20, D2D, second)
        rt.sim.aclsim_release_streams()
        rt.ok("aclrtSynchronizeStream", second)
        assert rt.read(there + (1 << 20) - 8, 8) == bytes([value]) * 8
    for memory in here, there:
        rt.ok("aclrtFree", memory)
    rt.ok("aclrtFreeHost", host)


@pytest.mark.provokes("sync:wait_without_record")
def test_older_families_wait_for_a_record_to_come(rt: Runtime) -> None:
    stream, event = rt.stream(), rt.event(WITH_FLAG, SYNC)
    rt.ok("aclrtStreamWaitEvent", stream, event)
    assert rt.code("aclrtSynchronizeStreamWithTimeout", stream, 20) == 507046
    assert rt.out("aclrtQueryEventWaitStatus", ctypes.c_int, event, first=False) == 1
    rt.ok("aclrtRecordEvent", event, None)
    rt.ok("aclrtSynchronizeStream", stream)
    assert rt.out("aclrtQueryEventWaitStatus", ctypes.c_int, event, first=False) == 0


@pytest.mark.provokes("sync:wait_without_record")
def test_the_newest_family_waits_for_what_was_recorded(rt: Runtime) -> None:
    stream = rt.stream()
    rt.ok("aclrtStreamWaitEvent", stream, rt.event(EX, SYNC))
    rt.ok("aclrtSynchronizeStream", stream)


def test_reset_makes_an_event_unrecorded(rt: Runtime) -> None:
    event = rt.event(WITH_FLAG, SYNC)
    rt.ok("aclrtRecordEvent", event, None)
    rt.ok("aclrtSynchronizeEvent", event)
    rt.ok("aclrtResetEvent", event, None)
    assert not done(rt, event)
    rt.ok("aclrtRecordEvent", event, None)
    rt.ok("aclrtSynchronizeEvent", event)
    assert done(rt, event)


def test_resetting_a_plain_event_is_a_misuse() -> None:
    done = run_alone("""
        sim.aclrtSetDevice(0)
        print(sim.aclrtResetEvent(rt.event(), None), rt.counter("ACLSIM_REPORTS"))
    """)
    assert done.stdout.split() == ["0", "1"]
    assert "aclsim: api: event_not_resettable in aclrtResetEvent" in done.stderr


@pytest.mark.provokes("sync:destroyed_in_flight", "sync:wait_without_record")
def test_a_wait_on_a_destroyed_event_ends(rt: Runtime) -> None:
    stream, event = rt.stream(), rt.event()
    rt.ok("aclrtStreamWaitEvent", stream, event)
    rt.ok("aclrtDestroyEvent", event)
    rt.ok("aclrtSynchronizeStream", stream)


@pytest.mark.provokes("sync:destroyed_in_flight")
def test_a_recorded_event_may_be_destroyed_before_the_wait_runs(rt: Runtime) -> None:
    first, second, event = rt.stream(), rt.stream(), rt.event(EX, SYNC)
    rt.sim.aclsim_hold_streams()
    rt.ok("aclrtRecordEvent", event, first)
    rt.ok("aclrtStreamWaitEvent", second, event)
    rt.ok("aclrtDestroyEvent", event)
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeDevice")


@pytest.mark.provokes("sync:wait_without_record")
def test_dropping_a_stream_ends_its_wait_and_its_records(rt: Runtime) -> None:
    waits, event = rt.stream(), rt.event()
    rt.ok("aclrtStreamWaitEvent", waits, event)
    never = rt.event()
    rt.ok("aclrtRecordEvent", never, waits)
    assert rt.code("aclrtSynchronizeEventWithTimeout", never, 20) == 507047
    rt.ok("aclrtDestroyStreamForce", waits)
    rt.ok("aclrtSynchronizeEvent", never)


def test_a_wait_with_a_timeout(rt: Runtime) -> None:
    stream, event = rt.stream(), rt.event()
    assert rt.code("aclrtStreamWaitEventWithTimeout", stream, event, -1) == 107000
    rt.ok("aclrtStreamWaitEventWithTimeout", stream, event, 1)
    start = time.monotonic()
    assert rt.code("aclrtSynchronizeStream", stream) == 107019
    assert 0.5 < time.monotonic() - start < 10
    rt.ok("aclrtSetOpWaitTimeout", 1)
    rt.ok("aclrtStreamWaitEvent", stream, event)
    rt.ok("aclrtSetOpWaitTimeout", 0)
    assert rt.code("aclrtSynchronizeStream", stream) == 107019


@pytest.mark.parametrize("name", [WITH_FLAG, EX])
def test_streams_wait_only_for_events_with_sync(rt: Runtime, name: str) -> None:
    assert rt.code("aclrtStreamWaitEvent", None, rt.event(name, TIME_LINE)) == 107000


def elapsed(rt: Runtime, start: int | None, end: int | None) -> tuple[int, float]:
    value = ctypes.c_float(-1)
    return rt.code("aclrtEventElapsedTime", ctypes.byref(value), start, end), value.value


@pytest.mark.provokes("sync:time_before_synchronise")
def test_elapsed_time(rt: Runtime) -> None:
    start, end, silent = rt.event(), rt.event(EX, SYNC | TIME_LINE), rt.event(WITH_FLAG, SYNC)
    assert elapsed(rt, start, end) == (507000, -1)
    rt.ok("aclrtRecordEvent", start, None)
    rt.ok("aclrtSynchronizeEvent", start)
    time.sleep(0.03)
    rt.sim.aclsim_hold_streams()
    for event in end, silent:
        rt.ok("aclrtRecordEvent", event, None)
    assert elapsed(rt, start, end) == (107006, -1)
    rt.sim.aclsim_release_streams()
    rt.ok("aclrtSynchronizeStream", None)
    code, milliseconds = elapsed(rt, start, end)
    assert code == 0
    assert 25 < milliseconds < 5000
    assert elapsed(rt, start, silent)[0] == 107006
    assert elapsed(rt, end, start)[0] == 107007
    assert elapsed(rt, None, end)[0] == 100000
    stamps = [rt.out("aclrtEventGetTimestamp", ctypes.c_uint64, event, first=False) for event in (start, end)]
    assert abs((stamps[1] - stamps[0]) / 1000 - milliseconds) < 0.01


def test_ids_differ(rt: Runtime) -> None:
    ids = [rt.out("aclrtGetEventId", ctypes.c_uint32, rt.event(), first=False) for _ in range(5)]
    assert len(set(ids)) == 5
