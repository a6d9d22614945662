# SPDX-License-Identifier: Apache-2.0
"""synccheck: results that are read, and things that are freed, before the host waited for the work on them; whether
that work has run by then or not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
import scatter_calls
from runtime_calls import D2H, DEFAULT, H2BUF2D, H2D, Runtime
from streams import SIZE, Streams

whenever = pytest.mark.parametrize("ran", [True, False], ids=["ran", "queued"])


def queue(streams: Streams, work: Callable[[], None], ran: bool) -> Callable[[], None]:
    """Queues work on stream one, and lets it run now, or when the returned function is called."""
    if not ran:
        go = streams.block(streams.one)
        work()
        return go
    work()
    streams.let_pass(streams.one)
    return lambda: None


class TestCopies:
    @whenever
    def test_reading_a_result(self, streams: Streams, reports: Any, ran: bool) -> None:
        go = queue(streams, lambda: streams.fill(streams.one, 64, 64), ran)
        streams.rt.read(streams.memory, SIZE)
        go()
        streams.synchronize()
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("sync", "read_before_synchronise", "aclrtMemcpy")
        assert (found["device"], found["stream"]) == (None, None)
        assert found["text"] == (
            f"src, read by aclrtMemcpy on the host, and devPtr, written by aclrtMemsetAsync, call {1 if ran else 2} of "
            f"stream {streams.ids[0]} of device 0, share 64 bytes in 1 range, first the 64 at "
            f"{streams.memory + 64:#x}, byte 64 of the allocation of {SIZE} bytes at {streams.memory:#x}; nothing "
            "orders the two, so a device may do either first, or both at once: synchronise with stream "
            f"{streams.ids[0]} first"
        )

    @whenever
    def test_overwriting_what_work_reads(self, streams: Streams, reports: Any, ran: bool) -> None:
        go = queue(streams, lambda: streams.copy(streams.one, streams.other, streams.memory), ran)
        streams.rt.write(streams.memory, bytes(SIZE))
        go()
        streams.synchronize()
        assert reports.kinds() == ["sync:write_before_synchronise"]

    @whenever
    def test_filling_what_work_writes(self, streams: Streams, reports: Any, ran: bool) -> None:
        go = queue(streams, lambda: streams.fill(streams.one), ran)
        streams.rt.ok("aclrtMemset", streams.memory, SIZE, 0, 1)
        go()
        streams.synchronize()
        assert reports.kinds() == ["sync:write_before_synchronise"]

    def test_other_bytes_are_none(self, streams: Streams) -> None:
        streams.fill(streams.one, 0, 64)
        streams.rt.read(streams.memory + 64, 64)
        streams.rt.write(streams.memory + 128, bytes(64))

    def test_reading_what_work_reads_is_none(self, streams: Streams) -> None:
        streams.copy(streams.one, streams.other, streams.memory)
        streams.rt.read(streams.memory, SIZE)

    def test_behind_a_synchronise_is_none(self, streams: Streams) -> None:
        streams.fill(streams.one)
        streams.rt.ok("aclrtSynchronizeStream", streams.one)
        streams.rt.read(streams.memory, SIZE)
        streams.rt.write(streams.memory, bytes(SIZE))
        streams.fill(streams.one)

    def test_a_copy_to_the_programs_own_memory_waits_for_its_stream(self, streams: Streams) -> None:
        data = ctypes.create_string_buffer(SIZE)
        streams.fill(streams.one)
        streams.rt.ok("aclrtMemcpyAsync", data, SIZE, streams.memory, SIZE, D2H, streams.one)
        streams.rt.write(streams.memory, bytes(SIZE))

    def test_but_not_for_another(self, streams: Streams, reports: Any) -> None:
        data = ctypes.create_string_buffer(SIZE)
        streams.fill(streams.one)
        streams.let_pass(streams.one)
        streams.rt.ok("aclrtMemcpyAsync", data, SIZE, streams.memory, SIZE, D2H, streams.two)
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("read_before_synchronise", "aclrtMemcpyAsync")

    def test_a_staged_copy_reads_its_source_at_once(self, streams: Streams, reports: Any) -> None:
        rt, pinned = streams.rt, streams.malloc_host()
        rt.ok("aclrtMemset", pinned, SIZE, 0, SIZE)
        rt.ok("aclrtMemcpyAsync", streams.memory, SIZE, pinned, SIZE, H2BUF2D, streams.one)
        rt.ok("aclrtMemset", pinned, SIZE, 0, SIZE)
        streams.end(pinned)
        assert reports.take() == []

    def test_pinned_memory_is_reused(self, streams: Streams, reports: Any) -> None:
        rt, pinned = streams.rt, streams.malloc_host()
        rt.ok("aclrtMemset", pinned, SIZE, 0, SIZE)
        rt.ok("aclrtMemcpyAsync", streams.memory, SIZE, pinned, SIZE, H2D, streams.one)
        streams.let_pass(streams.one)
        rt.ok("aclrtMemcpy", pinned, SIZE, b"x" * SIZE, SIZE, DEFAULT)
        (found,) = reports.take()
        assert found["kind"] == "write_before_synchronise"
        assert "in host memory that the runtime knows" in found["text"]


class TestFreeing:
    def test_memory(self, streams: Streams, reports: Any) -> None:
        memory = streams.malloc()
        streams.fill(streams.one, 32, 32, at=memory)
        streams.let_pass(streams.one)
        streams.end(memory)
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("sync", "freed_in_flight", "aclrtFree")
        assert found["stream"] is None
        assert found["text"] == (
            f"memory {memory:#x} is devPtr of aclrtMemsetAsync, call 1 of stream {streams.ids[0]} of device 0, which "
            f"the host did not wait for; a device may still be using it: synchronise with stream {streams.ids[0]} first"
        )

    def test_pinned_memory(self, streams: Streams, reports: Any) -> None:
        rt, pinned = streams.rt, streams.malloc_host()
        rt.ok("aclrtMemset", pinned, SIZE, 0, SIZE)
        rt.ok("aclrtMemcpyAsync", streams.memory, SIZE, pinned, SIZE, H2D, streams.one)
        streams.let_pass(streams.one)
        streams.end(pinned)
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("freed_in_flight", "aclrtFreeHost")
        assert f"memory {pinned:#x} is src of aclrtMemcpyAsync" in found["text"]

    def test_one_report_for_each_stream_and_its_last_call(self, streams: Streams, reports: Any) -> None:
        memory = streams.malloc()
        for stream, offset in ((streams.one, 0), (streams.one, 64), (streams.two, 128)):
            streams.fill(stream, offset, 64, at=memory)
        streams.let_pass(streams.one)
        streams.let_pass(streams.two)
        streams.end(memory)
        texts = sorted(report["text"].split(" of device")[0].split("Async, ")[1] for report in reports.take())
        assert texts == [f"call 1 of stream {streams.ids[1]}", f"call 2 of stream {streams.ids[0]}"]

    @pytest.mark.parametrize("api", ["aclrtFree", "aclrtFreeWithDevSync"])
    def test_behind_the_work_is_none(self, streams: Streams, api: str) -> None:
        memory = streams.malloc()
        streams.fill(streams.one, at=memory)
        if api == "aclrtFree":
            event = streams.event()
            streams.rt.ok("aclrtRecordEvent", event, streams.one)
            streams.rt.ok("aclrtStreamWaitEvent", streams.two, event)
            streams.fill(streams.one, at=streams.other)
            streams.rt.ok("aclrtSynchronizeStream", streams.two)
            streams.end(event)
        streams.end(memory, api)

    def test_other_memory_is_none(self, streams: Streams) -> None:
        memory = streams.malloc()
        streams.fill(streams.one)
        streams.end(memory)


class TestFreeingWhatWasCopied:
    """That the copy came too early is found whether the work runs before the copy, before the end of the memory, or
    never gets there."""

    @pytest.fixture(params=["before the copy", "behind the copy", "behind the end"])
    def when(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    def found(
        self, streams: Streams, reports: Any, when: str, work: Callable[[int], None], copy: Callable[[int], None]
    ) -> list[dict[str, Any]]:
        memory = streams.malloc()
        go = queue(streams, lambda: work(memory), when == "before the copy")
        copy(memory)
        if when == "behind the copy":
            go()
            streams.let_pass(streams.one)
        streams.end(memory)
        go()
        streams.let_pass(streams.one)
        streams.rt.code("aclrtSynchronizeStream", streams.one)
        streams.rt.message()
        found = reports.take()
        assert [r["kind"] for r in found].count("freed_in_flight") == 1
        late = {"freed_while_queued"} if when == "behind the end" else set()
        assert {r["kind"] for r in found if r["check"] == "mem"} == late
        return [r for r in found if r["check"] == "sync" and r["kind"] != "freed_in_flight"]

    def test_results(self, streams: Streams, reports: Any, when: str) -> None:
        (found,) = self.found(
            streams,
            reports,
            when,
            lambda memory: streams.fill(streams.one, 64, 64, at=memory),
            lambda memory: streams.rt.read(memory, SIZE),
        )
        assert (found["check"], found["kind"], found["function"]) == ("sync", "read_before_synchronise", "aclrtMemcpy")
        verb = "to be written" if when == "behind the end" else "written"
        assert f"aclrtMemcpy on the host, and devPtr, {verb} by aclrtMemsetAsync, call " in found["text"]
        assert "share 64 bytes in 1 range" in found["text"]

    def test_sources(self, streams: Streams, reports: Any, when: str) -> None:
        (found,) = self.found(
            streams,
            reports,
            when,
            lambda memory: streams.copy(streams.one, streams.other, memory),
            lambda memory: streams.rt.write(memory, bytes(8)),
        )
        assert found["kind"] == "write_before_synchronise"
        assert "share 8 bytes in 1 range" in found["text"]

    def test_what_work_only_reads_is_none(self, streams: Streams, reports: Any, when: str) -> None:
        work, copy = lambda m: streams.copy(streams.one, streams.other, m), lambda m: streams.rt.read(m, SIZE)
        assert self.found(streams, reports, when, work, copy) == []

    def test_other_bytes_are_none(self, streams: Streams, reports: Any, when: str) -> None:
        work, copy = lambda m: streams.fill(streams.one, 64, 64, at=m), lambda m: streams.rt.read(m + 128, 64)
        assert self.found(streams, reports, when, work, copy) == []

    def test_behind_a_synchronise_is_none(self, streams: Streams) -> None:
        memory = streams.malloc()
        streams.fill(streams.one, at=memory)
        streams.rt.ok("aclrtSynchronizeStream", streams.one)
        streams.rt.read(memory, SIZE)
        streams.end(memory)

    @pytest.mark.parametrize("schedule", ["worker", "immediate", "lazy", "random:1", "random:2", "random:3"])
    def test_caches(self, sim: Any, reports: Any, schedule: str) -> None:
        """The sources go first, so that the kernel may be stopped by it in front of the caches."""
        sim.aclsim_set_schedule(schedule.encode())
        try:
            device = scatter_calls.Device(sim)
            call = scatter_calls.Call(device)
            status, size, executor = device.phase1(call.handles)
            assert (status, device.phase2(executor, size, device.alloc(size))) == (0, 0)
            device.read(call.addresses["keyCacheRef"], call.key_cache)
            for name in ("key", "slotMapping", "keyCacheRef"):
                device.memory.remove(call.addresses[name])
                assert sim.aclrtFree(call.addresses[name]) == 0
            device.synchronize()
            device.close()
        finally:
            sim.aclsim_set_schedule(None)
        (found,) = [r for r in reports.take() if r["kind"] == "read_before_synchronise"]
        assert "src, read by aclrtMemcpy on the host, and keyCacheRef, " in found["text"]


class TestDestroying:
    def test_a_stream(self, streams: Streams, reports: Any) -> None:
        rt, stream = streams.rt, streams.stream()
        number = rt.out("aclrtStreamGetId", ctypes.c_int32, stream, first=False)
        streams.fill(stream)
        streams.end(stream)
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("destroyed_in_flight", "aclrtDestroyStream")
        assert found["text"].startswith(
            f"stream {number} of device 0 is the stream of aclrtMemsetAsync, call 1 of stream {number} of device 0, "
        )

    @pytest.mark.parametrize("api", ["aclrtDestroyStream", "aclrtDestroyStreamForce"])
    def test_a_stream_that_is_done_with_or_whose_work_is_dropped_is_none(self, streams: Streams, api: str) -> None:
        stream = streams.stream()
        streams.fill(stream)
        if api == "aclrtDestroyStream":
            streams.rt.ok("aclrtSynchronizeStream", stream)
        streams.end(stream, api)
        streams.rt.read(streams.memory, SIZE)

    @pytest.mark.parametrize("use", ["record", "wait"])
    def test_an_event(self, streams: Streams, reports: Any, use: str) -> None:
        rt, event = streams.rt, streams.event()
        rt.ok("aclrtRecordEvent", event, streams.one)
        if use == "wait":
            rt.ok("aclrtSynchronizeStream", streams.one)
            rt.ok("aclrtStreamWaitEvent", streams.two, event)
        number = rt.out("aclrtGetEventId", ctypes.c_uint32, event, first=False)
        streams.end(event)
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("destroyed_in_flight", "aclrtDestroyEvent")
        user = "aclrtRecordEvent" if use == "record" else "aclrtStreamWaitEvent"
        assert found["text"].startswith(f"event {number} ({event:#x}) is the event of {user}, call 1 of stream")

    def test_an_event_that_was_waited_for_is_none(self, streams: Streams) -> None:
        event = streams.event()
        streams.rt.ok("aclrtRecordEvent", event, streams.one)
        streams.rt.ok("aclrtSynchronizeEvent", event)
        streams.end(event)

    @pytest.mark.parametrize("synchronised", [True, False])
    def test_resetting_a_device(self, initialised: Any, reports: Any, synchronised: bool) -> None:
        rt = Runtime(initialised)
        rt.ok("aclrtSetDevice", 1)
        memory = rt.malloc(SIZE)
        rt.ok("aclrtMemsetAsync", memory, SIZE, 0, SIZE, None)
        if synchronised:
            rt.ok("aclrtSynchronizeDevice")
        rt.ok("aclrtResetDevice", 1)
        assert [(r["kind"], r["function"]) for r in reports.take()] == (
            [] if synchronised else [("destroyed_in_flight", "aclrtResetDevice")]
        )
        rt.ok("aclrtSetDevice", 1)
        rt.ok("aclrtFree", memory)
        rt.ok("aclrtResetDevice", 1)


class TestEvents:
    def test_a_wait_for_nothing(self, streams: Streams, reports: Any) -> None:
        event = streams.event()
        streams.rt.ok("aclrtStreamWaitEvent", streams.one, event)
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == (
            "sync",
            "wait_without_record",
            "aclrtStreamWaitEvent",
        )
        streams.rt.ok("aclrtSynchronizeEvent", event)
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("wait_without_record", "aclrtSynchronizeEvent")

    def test_a_record_that_never_comes(self, streams: Streams, reports: Any) -> None:
        event = streams.plain_event()
        streams.rt.ok("aclrtStreamWaitEvent", streams.one, event)
        assert reports.take() == [], "it may still come"
        streams.end(event)
        assert reports.kinds() == ["sync:destroyed_in_flight", "sync:wait_without_record"]

    @whenever
    def test_elapsed_time_of_what_was_not_waited_for(self, streams: Streams, reports: Any, ran: bool) -> None:
        rt, start, end = streams.rt, streams.event(), streams.event()
        rt.ok("aclrtRecordEvent", start, streams.two)
        rt.ok("aclrtSynchronizeEvent", start)
        go = queue(streams, lambda: rt.ok("aclrtRecordEvent", end, streams.one), ran)
        status = rt.code("aclrtEventElapsedTime", ctypes.byref(ctypes.c_float()), start, end)
        assert status == (0 if ran else 107006)
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("time_before_synchronise", "aclrtEventElapsedTime")
        assert found["text"].startswith("endEvent, event ")
        assert f"({end:#x}), is asked" in found["text"]
        go()
        streams.synchronize()
        rt.ok("aclrtEventElapsedTime", ctypes.byref(ctypes.c_float()), start, end)
