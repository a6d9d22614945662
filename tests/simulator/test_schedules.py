# SPDX-License-Identifier: Apache-2.0
"""Schedules: when queued work runs, and that programs do not care."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runtime_calls import Kernels, Runtime, run_alone, succeed_alone
from scenarios import HEADS, SCENARIOS

import aclnn_kvcache as kv

COMPLETE, NOT_READY = 0, 1
SetSchedule = Callable[[str], None]


@pytest.fixture
def schedule(sim: Any) -> Iterator[SetSchedule]:
    def set_schedule(text: str) -> None:
        assert sim.aclsim_set_schedule(text.encode()) == 0

    yield set_schedule
    assert sim.aclsim_set_schedule(None) == 0


@pytest.fixture
def rt(initialised: Any, sim: Any, schedule: SetSchedule) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.drop_everything()


@pytest.fixture
def kernels(rt: Runtime) -> Kernels:
    return Kernels(rt.sim)


def append(values: list[int], value: int) -> Callable[[Any], int]:
    def kernel(_: Any) -> int:
        values.append(value)
        return 0

    return kernel


def status(rt: Runtime, stream: int | None) -> int:
    return int(rt.out("aclrtStreamQuery", ctypes.c_int, stream, first=False))


# --- the text


@pytest.mark.parametrize("text", ["fast", "lazy ", "random", "random:", "random:-1", "random:1x", "random:" + "9" * 20])
def test_a_wrong_text_is_refused_aloud_and_changes_nothing(
    rt: Runtime, kernels: Kernels, schedule: SetSchedule, capfd: pytest.CaptureFixture[str], text: str
) -> None:
    ran: list[int] = []
    schedule("immediate")
    assert rt.sim.aclsim_set_schedule(text.encode()) != 0
    expected = "worker, immediate, lazy, or random:SEED with a number of at most 19 digits"
    line = f'aclsim: aclsim_set_schedule: "{text}" is no schedule; expected {expected}\n'
    assert capfd.readouterr().err == line
    kernels.launch(None, append(ran, 1))
    assert ran == [1]


def test_a_process_begins_with_the_schedule_of_the_environment() -> None:
    script = """
        ran = []
        rt.ok("aclrtSetDevice", 0)
        kernels = Kernels(sim)
        kernels.launch(None, lambda _: ran.append(1) or 0)
        print(ran)
        rt.ok("aclrtSynchronizeDevice")
        print(ran)
    """
    for name, first in (("immediate", "[1]"), ("lazy", "[]")):
        assert succeed_alone(script, ACLSIM_SCHEDULE=name).split() == [first, "[1]"]


def test_a_wrong_environment_variable_fails_aloud_until_a_schedule_is_set() -> None:
    script = """
        print(rt.code("aclInit", None), rt.message().strip())
        print(sim.aclsim_set_schedule(b""), sim.aclInit(None))
    """
    done = run_alone(script, ACLSIM_SCHEDULE="eager")
    [line] = done.stderr.splitlines()
    assert line.startswith('aclsim: ACLSIM_SCHEDULE: "eager" is no schedule; expected worker, ')
    first, repaired = done.stdout.splitlines()
    assert '(EE2002): aclInit failed with 500000: ACLSIM_SCHEDULE is wrong: "eager" is no schedule' in first
    assert repaired == "0 0"


# --- immediate


def test_immediate_work_ran_when_the_call_returns(rt: Runtime, kernels: Kernels, schedule: SetSchedule) -> None:
    ran: list[int] = []
    schedule("immediate")
    stream = rt.stream()
    for number in range(20):
        assert kernels.launch(stream, append(ran, number)) == 0
        assert (ran, status(rt, stream)) == (list(range(number + 1)), COMPLETE)


def test_immediate_work_that_cannot_run_yet_does_not_hang(rt: Runtime, kernels: Kernels, schedule: SetSchedule) -> None:
    ran: list[int] = []
    schedule("immediate")
    first, second, event = rt.stream(), rt.stream(), rt.event()
    rt.ok("aclrtStreamWaitEvent", first, event)
    kernels.launch(first, append(ran, 1))
    assert (ran, status(rt, first)) == ([], NOT_READY)
    kernels.launch(second, append(ran, 2))
    assert ran == [2]
    rt.ok("aclrtRecordEvent", event, second)
    rt.ok("aclrtSynchronizeStream", first)
    assert ran == [2, 1]
    rt.sim.aclsim_hold_streams()
    kernels.launch(second, append(ran, 3))
    assert ran == [2, 1]
    rt.sim.aclsim_release_streams()
    kernels.launch(second, append(ran, 4))
    assert ran == [2, 1, 3, 4]


# --- lazy


def synchronize_stream(rt: Runtime, stream: int, event: int) -> None:
    rt.ok("aclrtSynchronizeStream", stream)


def synchronize_device(rt: Runtime, stream: int, event: int) -> None:
    rt.ok("aclrtSynchronizeDevice")


def synchronize_event(rt: Runtime, stream: int, event: int) -> None:
    rt.ok("aclrtSynchronizeEvent", event)


def pageable_copy(rt: Runtime, stream: int, event: int) -> None:
    address = rt.malloc(4)
    rt.ok("aclrtMemcpyAsync", address, 4, b"abcd", 4, 1, stream)
    rt.ok("aclrtFree", address)


def destroy_stream(rt: Runtime, stream: int, event: int) -> None:
    rt.ok("aclrtDestroyStream", stream)


def poll_stream(rt: Runtime, stream: int, event: int) -> None:
    answers = [status(rt, stream)]
    while answers[-1] != COMPLETE:
        answers.append(status(rt, stream))
    assert answers[0] == NOT_READY, "a question is answered by what ran before it"


def poll_event(rt: Runtime, stream: int, event: int) -> None:
    answers = [rt.out("aclrtQueryEventStatus", ctypes.c_int, event, first=False)]
    while not answers[-1]:
        answers.append(rt.out("aclrtQueryEventStatus", ctypes.c_int, event, first=False))
    assert answers[0] == 0


@pytest.mark.parametrize(
    "wait",
    [
        *(synchronize_stream, synchronize_device, synchronize_event, pageable_copy, poll_stream, poll_event),
        pytest.param(destroy_stream, marks=pytest.mark.provokes("sync:destroyed_in_flight")),
    ],
)
def test_lazy_work_runs_when_something_waits(
    rt: Runtime, kernels: Kernels, schedule: SetSchedule, wait: Callable[[Runtime, int, int], None]
) -> None:
    """The stream waits for another one, which must run as well."""
    ran: list[int] = []
    schedule("lazy")
    first, second, done, end = rt.stream(), rt.stream(), rt.event(), rt.event()
    kernels.launch(first, append(ran, 1))
    rt.ok("aclrtRecordEvent", done, first)
    rt.ok("aclrtStreamWaitEvent", second, done)
    kernels.launch(second, append(ran, 2))
    rt.ok("aclrtRecordEvent", end, second)
    assert ran == []
    wait(rt, second, end)
    assert ran == [1, 2]


@pytest.mark.provokes("sync:read_before_synchronise")
def test_lazy_work_shows_in_a_copy_that_asks_again(rt: Runtime, schedule: SetSchedule) -> None:
    """A synchronous copy waits for nothing: without a synchronise it reads what was there before."""
    schedule("lazy")
    address = rt.malloc(4)
    rt.write(address, b"\x11" * 4)
    rt.ok("aclrtMemsetAsync", address, 4, 0x22, 4, None)
    read = [rt.read(address, 4)]
    while read[-1] != b"\x22" * 4:
        read.append(rt.read(address, 4))
    assert read[0] == b"\x11" * 4
    rt.ok("aclrtSynchronizeStream", None)
    rt.ok("aclrtFree", address)


def test_lazy_work_runs_under_another_schedule(rt: Runtime, kernels: Kernels, schedule: SetSchedule) -> None:
    ran: list[int] = []
    schedule("lazy")
    stream = rt.stream()
    kernels.launch(stream, append(ran, 1))
    schedule("immediate")
    kernels.launch(stream, append(ran, 2))
    assert ran == [1, 2]


# --- all


def same_results(name: str, before: Any, after: Any) -> None:
    """Where the oracle knows what must come out."""
    if "fused" in name:
        inputs = {key: value for key, value in before.items() if key not in ("q_out", "q_scale")}
        expected = kv.oracle.qkv_rms_norm_rope_cache_with_k_scale(**inputs, head_nums=HEADS, layout_q_out="TND")
        for key in expected._fields:
            assert kv.compare(after[key], getattr(expected, key), rule="relative" if "scale" in key else "fp8").ok, key
    elif name not in ("session", "transfer", "smoke"):
        result = kv.oracle.scatter_pa_kv_cache_with_k_scale(**before)
        for key in result._fields:
            assert after[key].tobytes() == getattr(result, key).tobytes(), key


@pytest.mark.parametrize("text", ["worker", "immediate", "lazy", "random:1", "random:2"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_results_are_the_same_under_every_schedule(schedule: SetSchedule, tmp_path: Path, name: str, text: str) -> None:
    scenario = SCENARIOS[name]
    before, arrays = scenario.arrays(), scenario.arrays()
    schedule(text)
    record = tmp_path if scenario.records else None
    with kv.Session("simulator", blocking=scenario.blocking, record=record) as session:
        scenario.act(session, arrays)
    same_results(name, before, arrays)
