# SPDX-License-Identifier: Apache-2.0
"""What nobody would hear of any more: faults that no call told, work that is left at an end, waits without end."""

from __future__ import annotations

import ctypes
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from runtime_calls import KERNEL_FAULT, run_alone
from streams import Streams

BEGIN = """
    sim.aclInit(None); sim.aclrtSetDevice(0)
    stream, memory = rt.stream(), rt.malloc(64)
    kernels = Kernels(sim)
"""


def at_the_end(tmp_path: Path, script: str, checks: str = "api,sync") -> list[tuple[str, str, str]]:
    """Kind, function and text of what a program of its own makes the checks say, with a stream and memory."""
    done = run_alone(
        textwrap.dedent(BEGIN) + textwrap.dedent(script),
        init=False,
        ACLSIM_REPORT=str(tmp_path / "reports"),
        ACLSIM_CHECK=checks,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = [json.loads(line) for line in (tmp_path / "reports").read_text().splitlines()[1:]]
    return [(f"{report['check']}:{report['kind']}", report["function"], report["text"]) for report in found]


class TestUnheardFaults:
    def test_of_a_stream_that_is_destroyed(self, streams: Streams, reports: Any) -> None:
        stream = streams.stream()
        number = streams.rt.out("aclrtStreamGetId", ctypes.c_int32, stream, first=False)
        assert streams.kernels.fail(stream) == 0
        streams.end(stream)
        left, fault = reports.take()
        assert left["kind"] == "destroyed_in_flight"
        assert (fault["check"], fault["kind"], fault["function"]) == ("api", "unheard_fault", "aclrtDestroyStream")
        assert fault["text"] == (
            f"test_kernel on stream {number} of device 0 failed with {KERNEL_FAULT}, and no call has told: synchronise "
            "with the stream, and look at the status, before it ends"
        )

    @pytest.mark.parametrize("stops", [False, True])
    def test_that_was_told_is_none(self, streams: Streams, stops: bool) -> None:
        stream = streams.stream()
        streams.rt.ok("aclrtSetStreamFailureMode", stream, int(stops))
        assert streams.kernels.fail(stream) == 0
        assert streams.rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
        streams.end(stream)

    def test_that_another_fault_follows(self, streams: Streams, reports: Any) -> None:
        stream = streams.stream()
        for _ in range(2):
            assert streams.kernels.fail(stream) == 0
            if not streams.kernels.released:
                assert streams.rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
        assert streams.rt.code("aclrtSynchronizeStream", stream) == KERNEL_FAULT
        assert streams.kernels.fail(stream) == 0
        streams.let_pass(stream)
        streams.end(stream)
        assert reports.kinds() == ["sync:destroyed_in_flight", "api:unheard_fault"]

    @pytest.mark.parametrize(
        ("end", "function"),
        [
            ("rt.ok('aclrtResetDevice', 0)", "aclrtResetDevice"),
            ("rt.ok('aclrtResetDeviceForce', 0)", "aclrtResetDeviceForce"),
            ("rt.ok('aclFinalize')", "aclFinalize"),
            ("pass", "exit"),
        ],
    )
    def test_when_all_ends(self, tmp_path: Path, end: str, function: str) -> None:
        script = f"""
            kernels.fail(stream)
            kernels.launch(stream, lambda _: passed.set() or 0)
            passed.wait(60)
            {end}
        """
        script = "passed = threading.Event()\n" + textwrap.dedent(script)
        ((kind, name, text),) = at_the_end(tmp_path, script, "api")
        assert (kind, name) == ("api:unheard_fault", function)
        assert text.startswith(f"test_kernel on stream 1 of device 0 failed with {KERNEL_FAULT}, ")


class TestWorkThatIsLeft:
    @pytest.mark.parametrize(
        ("end", "kind", "function"),
        [("rt.ok('aclFinalize')", "finalized_in_flight", "aclFinalize"), ("pass", "exit_in_flight", "exit")],
    )
    @pytest.mark.parametrize("held", [False, True])
    def test_is_told(self, tmp_path: Path, end: str, kind: str, function: str, held: bool) -> None:
        script = f"""
            {"sim.aclsim_hold_streams()" if held else "pass"}
            rt.ok("aclrtMemsetAsync", memory, 64, 0, 64, stream)
            {end}
        """
        assert at_the_end(tmp_path, script) == [
            (
                f"sync:{kind}",
                function,
                "stream 1 of device 0 is the stream of aclrtMemsetAsync, call 1 of stream 1 of device 0, which the "
                "host did not wait for; a device may still be using it: synchronise with stream 1 first",
            )
        ]

    @pytest.mark.parametrize("end", ["rt.ok('aclFinalize')", "pass", "os._exit(0)"])
    def test_that_was_waited_for_is_none(self, tmp_path: Path, end: str) -> None:
        script = f"""
            rt.ok("aclrtMemsetAsync", memory, 64, 0, 64, stream)
            rt.ok("aclrtSynchronizeStream", stream)
            {end}
        """
        assert at_the_end(tmp_path, script) == []

    def test_a_child_says_nothing(self, tmp_path: Path) -> None:
        script = """
            sim.aclsim_hold_streams()
            rt.ok("aclrtMemsetAsync", memory, 64, 0, 64, stream)
            child = os.fork()
            if child == 0:
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            sim.aclsim_release_streams()
            rt.ok("aclrtSynchronizeStream", stream)
        """
        assert at_the_end(tmp_path, script) == []


class TestWaitsWithoutEnd:
    """Of the older events, whose first record may come behind the wait."""

    def told(self, found: dict[str, Any], streams: Streams, event: int, function: str) -> None:
        number = streams.rt.out("aclrtGetEventId", ctypes.c_uint32, event, first=False)
        assert (found["check"], found["kind"], found["function"]) == ("sync", "wait_without_record", function)
        assert found["text"] == (
            f"stream {streams.ids[0]} of device 0 waits for event {number} ({event:#x}), which was never recorded, and "
            "the host waits for that; unless another thread records it, for ever: record it before the wait is queued"
        )

    def test_that_time_out(self, streams: Streams, reports: Any) -> None:
        rt, event = streams.rt, streams.plain_event()
        rt.ok("aclrtStreamWaitEvent", streams.one, event)
        for _ in range(2):
            assert rt.code("aclrtSynchronizeStreamWithTimeout", streams.one, 20) == 507046
        (found,) = reports.take()
        self.told(found, streams, event, "aclrtSynchronizeStreamWithTimeout")
        rt.ok("aclrtRecordEvent", event, streams.two)

    def test_by_way_of_another_stream(self, streams: Streams, reports: Any) -> None:
        rt, event, between = streams.rt, streams.plain_event(), streams.plain_event()
        rt.ok("aclrtStreamWaitEvent", streams.one, event)
        rt.ok("aclrtRecordEvent", between, streams.one)
        rt.ok("aclrtStreamWaitEvent", streams.two, between)
        assert rt.code("aclrtSynchronizeStreamWithTimeout", streams.two, 100) == 507046
        (found,) = reports.take()
        self.told(found, streams, event, "aclrtSynchronizeStreamWithTimeout")
        assert rt.code("aclrtSynchronizeEventWithTimeout", between, 20) != 0
        assert reports.take() == [], "once"
        rt.ok("aclrtRecordEvent", event, None)

    @pytest.mark.parametrize(
        ("wait", "reports"),
        [("rt.ok('aclrtSynchronizeDevice')", 1), ("rt.ok('aclrtDestroyStream', stream)", 2)],
    )
    def test_that_the_host_is_in(self, tmp_path: Path, wait: str, reports: int) -> None:
        """The other thread sees the report, and ends the wait."""
        script = f"""
            event, other = rt.event(), rt.stream()
            rt.ok("aclrtStreamWaitEvent", stream, event)
            def end():
                rt.ok("aclrtSetDevice", 0)
                while sim.aclsim_report_count() < {reports}:
                    time.sleep(0.01)
                rt.ok("aclrtRecordEvent", event, other)
            thread = threading.Thread(target=end)
            thread.start()
            {wait}
            thread.join()
            rt.ok("aclrtSynchronizeDevice")
        """
        kind, function, text = at_the_end(tmp_path, script)[-1]
        assert (kind, function) == ("sync:wait_without_record", wait.split("'")[1])
        assert text.startswith("stream 1 of device 0 waits for event 0 (0x5a4")

    def test_work_that_takes_long_is_none(self, streams: Streams) -> None:
        go = streams.block(streams.one)
        assert streams.rt.code("aclrtSynchronizeStreamWithTimeout", streams.one, 20) == 507046
        go()

    def test_a_stream_that_nobody_waits_for_is_none(self, streams: Streams) -> None:
        rt, event = streams.rt, streams.plain_event()
        rt.ok("aclrtStreamWaitEvent", streams.two, event)
        go = streams.block(streams.one)
        assert rt.code("aclrtSynchronizeStreamWithTimeout", streams.one, 20) == 507046
        go()
        rt.ok("aclrtRecordEvent", event, streams.one)
