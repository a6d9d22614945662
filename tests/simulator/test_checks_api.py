# SPDX-License-Identifier: Apache-2.0
"""API check: calls in the wrong order, with the wrong objects or in the wrong place, whether CANN refuses them or not.
The statuses are CANN's in either case.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import scatter_calls as calls
from runtime_calls import D2H, Runtime, succeed_alone

SCATTER = "aclnnScatterPaKvCacheWithKScale"
POINTER = ctypes.c_void_p
MALLOC_TOO_MUCH = 1 << 40


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


@pytest.fixture
def rt(device: Any, sim: Any) -> Runtime:
    return Runtime(sim)


def only(reports: Any) -> tuple[str, str, str]:
    """Kind, function and text of the one report, which is one of the API check on the host."""
    (found,) = reports.take()
    assert (found["check"], found["device"], found["stream"]) == ("api", None, None)
    return found["kind"], found["function"], re.sub(r"number \d+", "number N", found["text"])


def in_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def ready(device: Any, call: Any) -> tuple[int, int, int]:
    """Executor, workspace size and workspace."""
    status, size, executor = device.phase1(call.handles)
    assert status == 0, device.message()
    return executor, size, device.alloc(size)


def test_a_good_call_is_none(device: Any) -> None:
    assert calls.Call(device).run() == 0


class TestExecutors:
    def test_used_twice(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        assert device.phase2(executor, size, workspace) == 0
        assert reports.take() == []
        assert device.phase2(executor, size, workspace) == 561000
        assert only(reports) == (
            "consumed_executor",
            SCATTER,
            f"executor is {executor:#x}, an executor, number N, made by {SCATTER}GetWorkspaceSize, which {SCATTER} has "
            "ended; CANN reads freed memory: call phase 1 again before each phase 2, and destroy only executors that "
            "were made repeatable",
        )

    def test_destroyed_after_phase_2(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        assert device.phase2(executor, size, workspace) == 0
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0
        kind, function, text = only(reports)
        assert (kind, function) == ("consumed_executor", "aclDestroyAclOpExecutor")
        assert f", which {SCATTER} has ended; CANN reads freed memory" in text

    def test_destroyed_twice_and_then_used(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0
        assert only(reports)[:2] == ("destroyed_handle", "aclDestroyAclOpExecutor")
        assert device.phase2(executor, size, workspace) == 561000
        assert only(reports)[:2] == ("destroyed_handle", SCATTER)

    def test_never_made(self, device: Any, reports: Any) -> None:
        assert device.phase2(0x1234) == 561000
        assert only(reports) == (
            "unknown_handle",
            SCATTER,
            "executor is 0x1234, which nothing ever gave out; expected an executor",
        )

    def test_of_another_kind(self, device: Any, reports: Any) -> None:
        call = calls.Call(device)
        assert device.phase2(call.tensors["key"]) == 561000
        kind, _, text = only(reports)
        assert kind == "handle_of_another_kind"
        assert text.endswith("a tensor, number N, made by aclCreateTensor; expected an executor")

    def test_of_another_operator(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        other = device.sim.aclnnQkvRmsNormRopeCacheWithKScale
        assert other(workspace, size, executor, device.stream) == 0
        assert only(reports)[:2] == ("executor_of_another_operator", "aclnnQkvRmsNormRopeCacheWithKScale")

    def test_a_repeatable_one_destroyed_in_flight(self, device: Any, reports: Any) -> None:
        call = calls.Call(device, tokens=2, heads=1, blocks=1, block_size=37, slots=(3, 30))
        call.view("key", call.key.repeat(2, axis=1), (16, 8, 1))
        for synchronised in (True, False):
            executor, size, workspace = ready(device, call)
            assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 0
            assert device.phase2(executor, size, workspace) == 0
            if synchronised:
                assert device.synchronize() == 0
            assert device.sim.aclDestroyAclOpExecutor(executor) == 0
            found = [(r["check"], r["kind"], r["function"]) for r in reports.take()]
            assert found == ([] if synchronised else [("sync", "destroyed_in_flight", "aclDestroyAclOpExecutor")])


class TestWorkspace:
    def test_smaller_than_asked(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        assert device.phase2(executor, size - 512, workspace) == 0
        assert only(reports) == (
            "workspace_too_small",
            SCATTER,
            f"the workspace has {size - 512} bytes, phase 1 asked for {size}; CANN does not compare, and a device "
            "writes behind it: pass what phase 1 asked for",
        )

    def test_none(self, device: Any, reports: Any) -> None:
        executor, _, _ = ready(device, calls.Call(device))
        assert device.phase2(executor, 0, None) == 0
        assert only(reports)[0] == "workspace_too_small"

    def test_on_the_host(self, device: Any, reports: Any) -> None:
        executor, size, _ = ready(device, calls.Call(device))
        buffer = ctypes.create_string_buffer(64)
        assert device.phase2(executor, size, ctypes.addressof(buffer)) == 0
        kind, _, text = only(reports)
        assert kind == "workspace_not_device_memory"
        assert f"{ctypes.addressof(buffer):#x}" in text

    def test_freed(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        device.memory.remove(workspace)
        assert device.sim.aclrtFree(workspace) == 0
        assert device.phase2(executor, size, workspace) == 0
        assert only(reports)[0] == "workspace_not_device_memory"

    def test_in_a_smaller_allocation(self, device: Any, reports: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        assert device.phase2(executor, size, workspace + 512) == 0
        kind, _, text = only(reports)
        assert kind == "workspace_outside_allocation"
        assert f"its allocation has {size - 512} there" in text

    def test_of_another_device(self) -> None:
        """In a process of its own, where no test has made the devices reach each other."""
        script = """
            import scatter_calls as calls
            device = calls.Device(sim)
            status, size, executor = device.phase1(calls.Call(device).handles)
            rt.ok("aclrtSetDevice", 1)
            workspace = rt.malloc(size)
            rt.ok("aclrtSetDevice", 0)
            print(device.phase2(executor, size, workspace), device.synchronize())
            print([report["text"].split(", ", 2)[2] for report in sim.reports()])
            sys.stdout.flush(); os._exit(0)
        """
        output = succeed_alone(script, False, ["api:memory_of_another_device"])
        said = (
            "is memory of device 1, and the launch is on device 0, which does not reach it: allocate it there, or call "
            "aclrtDeviceEnablePeerAccess first"
        )
        assert output.splitlines() == ["0 0", str([said])]


class TestTensors:
    def test_destroyed_between_the_phases(self, device: Any, reports: Any) -> None:
        call = calls.Call(device)
        executor, size, workspace = ready(device, call)
        device.destroy(call.tensors["value"])
        assert device.phase2(executor, size, workspace) == 561000
        kind, function, text = only(reports)
        assert (kind, function) == ("tensor_destroyed_between_phases", SCATTER)
        assert text == (
            f"tensor value, {call.tensors['value']:#x}, was destroyed between phase 1 and phase 2; CANN launches all "
            "the same and reads freed memory: destroy tensors behind phase 2"
        )

    def test_and_another_made_meanwhile(self, device: Any, reports: Any) -> None:
        call = calls.Call(device)
        executor, size, workspace = ready(device, call)
        device.destroy(call.tensors["value"])
        device.tensor((3, 2, 8), calls.E4M3FN, call.addresses["value"])
        assert device.phase2(executor, size, workspace) == 561000
        assert only(reports)[2].endswith("tensor that was made in its place since: destroy tensors behind phase 2")

    def test_destroyed_twice(self, device: Any, reports: Any) -> None:
        tensor = device.tensor((1,), calls.FLOAT, None)
        device.destroy(tensor)
        assert device.sim.aclDestroyTensor(tensor) == 0
        assert only(reports) == (
            "destroyed_handle",
            "aclDestroyTensor",
            f"tensor is {tensor:#x}, a tensor, number N, made by aclCreateTensor, which aclDestroyTensor has ended; "
            "CANN reads freed memory: end it once, behind its last use",
        )

    def test_destroyed_long_ago(self, device: Any, reports: Any) -> None:
        """The place was used again since; what is there now is named as well."""
        tensor = device.tensor((1,), calls.FLOAT, None)
        device.destroy(tensor)
        device.destroy(device.tensor((1,), calls.FLOAT, None))
        device.tensor((1,), calls.FLOAT, None)
        assert device.sim.aclDestroyTensor(tensor) == 0
        kind, _, text = only(reports)
        assert kind == "destroyed_handle"
        assert "a tensor, which was ended before; CANN" in text
        assert "may take what was made in its place since for it" in text

    def test_of_another_kind(self, device: Any, reports: Any) -> None:
        array = device.sim.aclCreateIntArray(None, 0)
        assert device.sim.aclDestroyTensor(array) == 0
        assert only(reports) == (
            "handle_of_another_kind",
            "aclDestroyTensor",
            f"tensor is {array:#x}, an int array, number N, made by aclCreateIntArray; expected a tensor",
        )
        assert device.sim.aclDestroyIntArray(array) == 0


class TestRuntimeHandles:
    def test_streams(self, rt: Runtime, reports: Any) -> None:
        stream = rt.stream()
        rt.ok("aclrtDestroyStream", stream)
        assert rt.code("aclrtDestroyStream", stream) == 107017
        assert only(reports) == (
            "destroyed_handle",
            "aclrtDestroyStream",
            f"stream is {stream:#x}, a stream, number N, made by aclrtCreateStream, which aclrtDestroyStream has "
            "ended; CANN before 9.1.0 does not notice: end it once, behind its last use",
        )

    def test_events(self, rt: Runtime, device: Any, reports: Any) -> None:
        event = rt.event()
        assert rt.code("aclrtSynchronizeStream", event) == 107017
        kind, function, text = only(reports)
        assert (kind, function) == ("handle_of_another_kind", "aclrtSynchronizeStream")
        assert text.endswith("an event, number N, made by aclrtCreateEvent; expected a stream")
        rt.ok("aclrtDestroyEvent", event)
        assert rt.code("aclrtRecordEvent", event, device.stream) == 107017
        assert only(reports)[:2] == ("destroyed_handle", "aclrtRecordEvent")

    def test_ended_with_their_context(self, rt: Runtime, reports: Any) -> None:
        home = rt.out("aclrtGetCurrentContext", POINTER)
        context = rt.out("aclrtCreateContext", POINTER, 0)
        event = rt.event()
        rt.ok("aclrtDestroyContext", context)
        rt.ok("aclrtSetCurrentContext", home)
        assert rt.code("aclrtDestroyEvent", event) == 107017
        assert "made by aclrtCreateEvent, which aclrtDestroyContext has ended" in only(reports)[2]
        assert rt.code("aclrtSetCurrentContext", context) == 107002
        assert only(reports)[:2] == ("destroyed_handle", "aclrtSetCurrentContext")

    def test_streams_of_another_context(self, rt: Runtime, device: Any, reports: Any) -> None:
        home = rt.out("aclrtGetCurrentContext", POINTER)
        context = rt.out("aclrtCreateContext", POINTER, 1)
        event = rt.event()
        assert rt.code("aclrtRecordEvent", event, device.stream) == 107003
        kind, function, text = only(reports)
        assert (kind, function) == ("stream_of_another_context", "aclrtRecordEvent")
        assert text.endswith(
            f"of device 0 belongs to context {home:#x}, and this thread's is {context:#x}: make the stream's current "
            "first, by aclrtSetCurrentContext"
        )
        rt.ok("aclrtDestroyEvent", event)
        rt.ok("aclrtDestroyContext", context)
        rt.ok("aclrtSetCurrentContext", home)


class TestThreads:
    def test_without_a_device(self, rt: Runtime, device: Any, reports: Any) -> None:
        assert in_thread(lambda: rt.code("aclrtCreateStream", ctypes.byref(POINTER()))) == 107002
        assert only(reports)[:2] == ("no_device", "aclrtCreateStream")
        call = calls.Call(device)
        assert in_thread(lambda: device.phase1(call.handles)[0]) == 561103
        assert only(reports)[:2] == ("no_device", f"{SCATTER}GetWorkspaceSize")

    def test_asking_for_the_device_is_none(self, rt: Runtime) -> None:
        assert in_thread(lambda: rt.code("aclrtGetDevice", ctypes.byref(ctypes.c_int32()))) == 107002
        assert in_thread(lambda: rt.code("aclrtGetCurrentContext", ctypes.byref(POINTER()))) == 107002

    def test_phase_2_on_another_thread_is_none(self, rt: Runtime, device: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))

        def phase2() -> int:
            rt.ok("aclrtSetDevice", 0)
            status: int = device.phase2(executor, size, workspace)
            rt.ok("aclrtResetDevice", 0)
            return status

        assert in_thread(phase2) == 0


class TestIgnoredStatus:
    def test_of_phase_1(self, device: Any, reports: Any) -> None:
        call = calls.Call(device)
        assert device.phase1([None, *call.handles[1:]])[0] == 161001
        assert device.phase2(calls.UNTOUCHED_EXECUTOR) == 561000
        assert only(reports) == (
            "ignored_status",
            SCATTER,
            f"executor is {calls.UNTOUCHED_EXECUTOR:#x}, which is what the failed call of {SCATTER}GetWorkspaceSize on "
            "this thread left there; look at the status before using what a call was to give",
        )

    def test_of_phase_1_with_zeroed_parameters(self, device: Any, reports: Any) -> None:
        call = calls.Call(device)
        size, executor = ctypes.c_uint64(), POINTER()
        phase1 = getattr(device.sim, f"{SCATTER}GetWorkspaceSize")
        assert phase1(None, *call.handles[1:], b"", ctypes.byref(size), ctypes.byref(executor)) == 161001
        assert device.phase2(None) == 561000
        assert only(reports)[0] == "ignored_status"

    def test_of_an_allocation(self, rt: Runtime, reports: Any) -> None:
        memory = POINTER(0x4000)
        assert rt.code("aclrtMalloc", ctypes.byref(memory), MALLOC_TOO_MUCH, 0) == 207001
        assert rt.code("aclrtMemset", memory, 64, 0, 64) == 107000
        kind, function, text = only(reports)
        assert (kind, function) == ("ignored_status", "aclrtMemset")
        assert text.startswith(
            "devPtr is 0x4000, which is what the failed call of aclrtMalloc on this thread left there"
        )
        assert rt.code("aclrtFree", memory) == 107000
        assert reports.kinds() == ["mem:invalid_free", "api:ignored_status"]

    def test_of_a_stream(self, rt: Runtime, reports: Any) -> None:
        stream, thread_reports = POINTER(0x5000), []

        def create_and_use() -> None:
            rt.code("aclrtCreateStream", ctypes.byref(stream))
            rt.code("aclrtSynchronizeStream", stream)
            thread_reports.extend(reports.take())

        in_thread(create_and_use)
        assert [report["kind"] for report in thread_reports] == ["no_device", "ignored_status"]

    def test_a_status_that_was_looked_at_is_none(self, rt: Runtime, device: Any) -> None:
        memory = POINTER()
        assert rt.code("aclrtMalloc", ctypes.byref(memory), MALLOC_TOO_MUCH, 0) == 207001
        rt.ok("aclrtMalloc", ctypes.byref(memory), 64, 0)
        rt.ok("aclrtMemset", memory, 64, 0, 64)
        rt.ok("aclrtFree", memory)
        call = calls.Call(device)
        assert device.phase1([None, *call.handles[1:]])[0] == 161001
        assert call.run() == 0


class TestLife:
    @pytest.mark.parametrize(
        ("script", "output", "found"),
        [
            ("sim.aclrtSetDevice(0); sim.aclrtSetDevice(0)", "", ["api:call_before_init"]),
            ("print(sim.aclInit(None), sim.aclInit(None))", "0 100002", ["api:repeated_init"]),
            ("sim.aclInit(None); print(sim.aclFinalize(), sim.aclFinalize())", "0 100037", ["api:repeated_finalize"]),
            ("sim.aclInit(None); sim.aclInit(None); print(sim.aclFinalize())", "0", ["api:repeated_init"]),
            (
                "sim.aclInit(None); sim.aclInit(None); sim.aclrtSetDevice(0); event = rt.event(); "
                "print(sim.aclFinalize())",
                "0",
                ["api:repeated_init", "api:finalize_in_use", "leak:leaked_event"],
            ),
            (
                "sim.aclInit(None); sim.aclFinalize(); print(sim.aclrtSetDevice(0), sim.aclrtResetDevice(0))",
                "0 0",
                ["api:call_after_finalize"],
            ),
            ("sim.aclInit(None); sim.aclrtSetDevice(0); sim.aclrtResetDevice(0); print(sim.aclFinalize())", "0", []),
            ("print(rt.out('aclrtGetRunMode', ctypes.c_int))", "1", []),
        ],
    )
    def test_init_and_finalize(self, script: str, output: str, found: list[str]) -> None:
        assert succeed_alone(script, init=False, reports=found) == output


def test_off_means_nothing(device: Any, rt: Runtime, sim: Any) -> None:
    executor, size, workspace = ready(device, calls.Call(device))
    try:
        assert sim.aclsim_set_checks(b"none") == 0
        assert device.phase2(executor, size - 512, workspace) == 0
        assert device.phase2(executor, size, workspace) == 561000
        assert rt.code("aclrtSynchronizeStream", 0x1234) == 107017
        data = ctypes.create_string_buffer(64)
        assert rt.code("aclrtMemcpy", data, 64, workspace, 64, D2H) == 0
        assert device.synchronize() == 0
    finally:
        assert sim.aclsim_set_checks(b"all") == 0
