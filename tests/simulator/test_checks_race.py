# SPDX-License-Identifier: Apache-2.0
"""racecheck: work on two streams that touches the same bytes in no order, whichever of the two runs first."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runtime_calls import D2H, H2D
from streams import SIZE, Streams

both_orders = pytest.mark.parametrize("first", ["one", "two"])


@both_orders
def test_two_writes(streams: Streams, reports: Any, first: str) -> None:
    streams.run(first, lambda s: streams.fill(s, 0, 160), lambda s: streams.fill(s, 128, 128))
    (found,) = reports.take()
    one, two = streams.ids
    number = 1 if first == "one" else 2
    assert (found["check"], found["kind"], found["function"]) == ("race", "unordered_writes", "aclrtMemsetAsync")
    assert (found["device"], found["stream"], found["thread"]) == (0, two, threading.get_native_id())
    assert found["text"] == (
        f"devPtr, written by aclrtMemsetAsync, call 1 of stream {two} of device 0, and devPtr, written by "
        f"aclrtMemsetAsync, call {number} of stream {one} of device 0, share 32 bytes in 1 range, first the 32 at "
        f"{streams.memory + 128:#x}, byte 128 of the allocation of {SIZE} bytes at {streams.memory:#x}; nothing orders "
        "the two, so a device may do either first, or both at once: record an event behind the one and let the stream "
        "of the other wait for it"
    )


@both_orders
def test_a_read_and_a_write(streams: Streams, reports: Any, first: str) -> None:
    streams.run(first, lambda s: streams.copy(s, streams.other, streams.memory), streams.fill)
    (found,) = reports.take()
    assert (found["kind"], found["function"]) == ("unordered_read_and_write", "aclrtMemsetAsync")
    assert "src, read by aclrtMemcpyAsync, call" in found["text"]


@both_orders
def test_two_reads_are_none(streams: Streams, first: str) -> None:
    third = streams.malloc()
    streams.run(
        first,
        lambda s: streams.copy(s, streams.other, streams.memory),
        lambda s: streams.copy(s, third, streams.memory),
    )


@both_orders
def test_neighbouring_bytes_are_none(streams: Streams, first: str) -> None:
    streams.run(first, lambda s: streams.fill(s, 0, 128), lambda s: streams.fill(s, 128, 128))


def test_rows_between_rows_are_none(streams: Streams, reports: Any) -> None:
    """Strided copies touch their rows, not what lies between them."""
    rt = streams.rt
    pinned = streams.malloc_host()

    def rows(offset: int) -> Callable[[int], None]:
        to = streams.memory + offset
        return lambda s: rt.ok("aclrtMemcpy2dAsync", to, 32, pinned, 32, 16, 8, H2D, s)

    streams.run("one", rows(0), rows(16))
    assert reports.take() == []
    streams.run("one", rows(0), rows(8))
    assert [r["text"].split("share ")[1].split(",")[0] for r in reports.take()] == ["64 bytes in 8 ranges"]


def test_work_of_one_stream_is_ordered(streams: Streams) -> None:
    for _ in range(3):
        streams.fill(streams.one)
        streams.copy(streams.one, streams.other, streams.memory)


@both_orders
def test_an_event_orders(streams: Streams, first: str) -> None:
    """Recorded before the wait is called; in the other schedule stream one is blocked, and two waits for it."""
    event = streams.event()
    go = streams.block(streams.one) if first == "two" else None
    streams.fill(streams.one)
    streams.rt.ok("aclrtRecordEvent", event, streams.one)
    streams.rt.ok("aclrtStreamWaitEvent", streams.two, event)
    streams.fill(streams.two)
    if go is not None:
        go()


def test_order_is_handed_on(streams: Streams, reports: Any) -> None:
    """One, then two, then three: three comes after one. Work behind the record does not."""
    rt, three = streams.rt, streams.stream()
    events = [streams.event(), streams.event()]
    streams.fill(streams.one)
    rt.ok("aclrtRecordEvent", events[0], streams.one)
    streams.fill(streams.one, at=streams.other)
    streams.let_pass(streams.one)
    rt.ok("aclrtStreamWaitEvent", streams.two, events[0])
    rt.ok("aclrtRecordEvent", events[1], streams.two)
    rt.ok("aclrtStreamWaitEvent", three, events[1])
    streams.fill(three)
    streams.let_pass(three)
    assert reports.take() == []
    streams.fill(three, at=streams.other)
    streams.let_pass(three)
    assert reports.kinds() == ["race:unordered_writes"]


def test_a_wait_takes_the_record_that_was_called_before_it(streams: Streams, reports: Any) -> None:
    rt, event = streams.rt, streams.event()
    rt.ok("aclrtRecordEvent", event, streams.one)
    rt.ok("aclrtStreamWaitEvent", streams.two, event)
    streams.fill(streams.one)
    rt.ok("aclrtRecordEvent", event, streams.one)
    streams.let_pass(streams.one)
    streams.fill(streams.two)
    streams.let_pass(streams.two)
    assert reports.kinds() == ["race:unordered_writes"]


def test_a_wait_before_the_record_orders_for_the_older_families(streams: Streams) -> None:
    rt, event = streams.rt, streams.plain_event()
    rt.ok("aclrtStreamWaitEvent", streams.two, event)
    streams.fill(streams.two)
    streams.fill(streams.one)
    rt.ok("aclrtRecordEvent", event, streams.one)


@pytest.mark.parametrize("wait", ["stream", "device", "event", "query stream", "query event"])
def test_the_host_orders(streams: Streams, wait: str) -> None:
    rt, event = streams.rt, streams.event()
    streams.fill(streams.one)
    rt.ok("aclrtRecordEvent", event, streams.one)
    if wait == "stream":
        rt.ok("aclrtSynchronizeStreamWithTimeout", streams.one, 60_000)
    elif wait == "device":
        rt.ok("aclrtSynchronizeDevice")
    elif wait == "event":
        rt.ok("aclrtSynchronizeEvent", event)
    elif wait == "query stream":
        while rt.out("aclrtStreamQuery", ctypes.c_int, streams.one, first=False) != 0:
            pass
    else:
        while rt.out("aclrtQueryEventStatus", ctypes.c_int, event, first=False) != 1:
            pass
    streams.fill(streams.two)


def test_a_synchronise_that_timed_out_orders_nothing(streams: Streams, reports: Any) -> None:
    rt = streams.rt
    streams.fill(streams.one)
    streams.let_pass(streams.one)
    go = streams.block(streams.one)
    assert rt.code("aclrtSynchronizeStreamWithTimeout", streams.one, 1) == 507046
    streams.fill(streams.two)
    streams.let_pass(streams.two)
    go()
    assert reports.kinds() == ["race:unordered_writes"]


def test_the_default_stream_is_one_like_others(streams: Streams, reports: Any) -> None:
    streams.fill(streams.one)
    streams.let_pass(streams.one)
    streams.fill(None)
    streams.synchronize()
    assert reports.kinds() == ["race:unordered_writes"]


def test_memory_that_was_freed_and_came_again_is_other_memory(streams: Streams, sim: Any) -> None:
    addresses = set()
    try:
        assert sim.aclsim_set_checks(b"race,sync") == 0  # what is freed does not come again soon with memory checked
        go = streams.block(streams.one)  # so that something is always under way, and nothing is forgotten
        for stream in (streams.two, None, streams.two):
            memory = streams.malloc()
            addresses.add(memory)
            streams.fill(stream, at=memory)
            streams.rt.ok("aclrtSynchronizeStream", stream)
            streams.end(memory)
        go()
    finally:
        assert sim.aclsim_set_checks(b"all") == 0
    assert len(addresses) == 1


def test_pinned_memory_is_looked_at_too(streams: Streams, reports: Any) -> None:
    rt = streams.rt
    pinned = streams.malloc_host()

    def load(to: int) -> Callable[[int], None]:
        return lambda s: rt.ok("aclrtMemcpyAsync", pinned, SIZE, to, SIZE, D2H, s)

    streams.run("one", load(streams.memory), load(streams.other))
    (found,) = reports.take()
    assert found["kind"] == "unordered_writes"
    assert "dst, written by aclrtMemcpyAsync" in found["text"]
    assert "in host memory that the runtime knows" in found["text"]


def test_a_newer_call_stands_for_older_ones_that_it_covers(streams: Streams, reports: Any) -> None:
    """What is remembered of a stream that is never synchronised does not grow with its calls."""
    for _ in range(20):
        streams.fill(streams.one, 0, 16)
        streams.fill(streams.one)
    streams.let_pass(streams.one)
    streams.fill(streams.two, 0, 16)
    streams.let_pass(streams.two)
    (found,) = reports.take()
    assert f"call 40 of stream {streams.ids[0]}" in found["text"]


def test_checks_that_are_set_anew_start_from_nothing(streams: Streams, sim: Any) -> None:
    streams.fill(streams.one)
    streams.let_pass(streams.one)
    try:
        assert sim.aclsim_set_checks(b"none") == 0
        streams.fill(streams.two)
        streams.let_pass(streams.two)
    finally:
        assert sim.aclsim_set_checks(b"all") == 0
    streams.fill(streams.two)
    streams.let_pass(streams.two)
