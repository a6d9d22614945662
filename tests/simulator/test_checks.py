# SPDX-License-Identifier: Apache-2.0
"""Which checks are on, and where their reports go."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runtime_calls import Runtime, run_alone, succeed_alone

NO_HANDLE = 0x1000


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.ok("aclrtResetDeviceForce", 0)


def provoke(rt: Runtime) -> None:
    """What the check of the API reports: the end of something that never was."""
    rt.ok("aclDestroyTensor", NO_HANDLE)


def test_a_report_says_everything(rt: Runtime, reports: Any) -> None:
    provoke(rt)
    provoke(rt)
    first, second = reports.take()
    assert second.pop("sequence") == first.pop("sequence") + 1
    assert first == second
    assert first == {
        "check": "api",
        "kind": "unknown_handle",
        "function": "aclDestroyTensor",
        "text": "tensor is 0x1000, which nothing ever gave out; expected a tensor",
        "device": None,
        "stream": None,
        "thread": first["thread"],
    }
    assert first["thread"] in map(int, os.listdir("/proc/self/task"))


def test_work_of_a_stream_names_it_and_the_thread_that_queued_it(rt: Runtime, reports: Any) -> None:
    stream = rt.stream()
    address = rt.malloc(20)
    rt.ok("aclrtMemsetAsync", address, 32, 0, 32, stream)
    provoke(rt)
    rt.ok("aclrtSynchronizeStream", stream)
    number = rt.out("aclrtStreamGetId", ctypes.c_int32, stream, first=False)
    by_kind = {report["kind"]: report for report in reports.take()}
    fill, call = by_kind["out_of_bounds_write"], by_kind["unknown_handle"]
    assert (fill["device"], fill["stream"], fill["thread"]) == (0, number, call["thread"])
    rt.ok("aclrtDestroyStream", stream)
    rt.ok("aclrtFree", address)


def test_the_recent_message_has_a_title_of_its_own(rt: Runtime, reports: Any) -> None:
    provoke(rt)
    message = rt.message() or ""
    assert message.partition("] ")[2].partition(" ")[2].strip() == (
        "Simulator_Check_api(unknown_handle): aclDestroyTensor: tensor is 0x1000, which nothing ever gave out; "
        "expected a tensor."
    )
    assert rt.message() is None


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        (b"all", True),
        (b"none", False),
        (b"api", True),
        (b"mem,api", True),
        (b"api,api", True),
        (b"mem,init,race,sync,leak", False),
        (b"", True),
        (None, True),
    ],
)
def test_checks_are_chosen_by_name(rt: Runtime, reports: Any, text: bytes | None, is_reported: bool) -> None:
    assert rt.sim.aclsim_set_checks(text) == 0
    before = rt.counter("ACLSIM_REPORTS")
    provoke(rt)
    assert reports.kinds() == ["api:unknown_handle"] * is_reported
    assert rt.counter("ACLSIM_REPORTS") == before + is_reported
    assert (rt.message() is not None) == is_reported


@pytest.mark.parametrize("text", [b"memory", b"mem,", b",mem", b"mem;api", b"ALL", b"all,none", b" mem", b"x" * 500])
def test_a_wrong_text_changes_nothing(rt: Runtime, reports: Any, text: bytes, capfd: Any) -> None:
    assert rt.sim.aclsim_set_checks(b"none") == 0
    assert rt.sim.aclsim_set_checks(text) != 0
    said = capfd.readouterr().err
    assert said.startswith('aclsim: aclsim_set_checks: "')
    assert said.endswith("; expected all, none or a comma list of mem, init, race, sync, api and leak\n")
    assert '" is no check' in said
    provoke(rt)
    assert reports.take() == []


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        (b"all,bogus", '"bogus" is no check;'),
        (b"bogus,all", '"bogus" is no check;'),
        (b"mem,all", '"all" is no check of a list;'),
        (b"none,mem,x", '"x" is no check;'),
        (b"mem,,api", '"" is no check;'),
    ],
)
def test_of_a_wrong_text_the_word_that_is_wrong_is_named(sim: Any, text: bytes, blamed: str, capfd: Any) -> None:
    assert sim.aclsim_set_checks(text) != 0
    assert f"aclsim_set_checks: {blamed}" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rt, memory: rt.code("aclrtMemset", memory, 1, 0, 1), "with 1 byte to write, but"),
        (lambda rt, memory: rt.code("aclrtMemset", memory - 1, 1, 0, 1), "is 1 byte in front of the 31 bytes at"),
        (lambda rt, memory: rt.code("aclrtMemset", memory + 32, 31, 0, 31), "is 1 byte behind the 31 bytes at"),
    ],
)
def test_one_byte_is_no_bytes(rt: Runtime, reports: Any, call: Any, said: str) -> None:
    memory = rt.malloc(31)
    if "to write" in said:
        rt.ok("aclrtFree", memory)
    call(rt, memory)
    (found,) = reports.take()
    assert said in found["text"]


def test_a_null_pointer_is_called_so(rt: Runtime, reports: Any) -> None:
    stream = ctypes.c_void_p()
    assert rt.code("aclrtMallocHost", ctypes.byref(stream), 0) != 0
    rt.ok("aclDestroyTensor", None)
    assert rt.code("aclrtDestroyEvent", ctypes.c_void_p(1)) == 107017
    assert all("(nil)" not in report["text"] for report in reports.take())
    assert rt.code("aclrtSetCurrentContext", None) != 0
    assert "context is NULL; expected" in (rt.message() or "")


def test_a_wrong_variable_is_loud() -> None:
    done = run_alone(
        """
        print(sim.aclInit(None), sim.aclsim_set_checks(b"none"), sim.aclInit(None), rt.message())
        """,
        ACLSIM_CHECK="memory",
    )
    assert done.stdout.split()[:3] == ["500000", "0", "0"]
    assert "ACLSIM_CHECK is wrong" in done.stdout
    assert done.stderr == (
        'aclsim: ACLSIM_CHECK: "memory" is no check; '
        "expected all, none or a comma list of mem, init, race, sync, api and leak\n"
    )


@pytest.mark.parametrize(("text", "count"), [("none", 0), ("", 1), ("api,mem", 1), ("mem", 0)])
def test_the_variable(text: str, count: int) -> None:
    done = run_alone("sim.aclDestroyTensor(4096); print(sim.aclsim_report_count())", ACLSIM_CHECK=text)
    assert done.stdout.strip() == str(count)
    assert done.stderr.count("aclsim: api: unknown_handle in aclDestroyTensor: tensor is 0x1000") == count


def test_a_file_takes_the_place_of_standard_error(tmp_path: Path) -> None:
    path = tmp_path / "reports"
    for _ in range(2):
        assert succeed_alone("print(sim.aclDestroyTensor(4096))", ACLSIM_REPORT=str(path)) == "0"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("kind") for line in lines] == [None, "unknown_handle"] * 2
    assert lines[0] == {
        "schema": 1,
        "simulator": lines[0]["simulator"],
        "pid": lines[0]["pid"],
        "checks": ["mem", "init", "race", "sync", "api", "leak"],
    }
    assert lines[0]["pid"] != lines[2]["pid"]
    assert lines[0]["simulator"].startswith("0.1.0 (CANN 9.1.0")


def test_a_file_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    done = run_alone("sim.aclDestroyTensor(4096)", ACLSIM_REPORT=str(tmp_path / "none" / "reports"))
    assert done.stderr.splitlines()[0].startswith('aclsim: ACLSIM_REPORT: cannot open "')
    assert "unknown_handle" in done.stderr.splitlines()[1]


def test_a_full_queue_keeps_the_oldest(rt: Runtime, reports: Any) -> None:
    for _ in range(1030):
        provoke(rt)
    assert rt.sim.aclsim_report_count() == 1024
    taken = reports.take()
    assert len(taken) == 1024
    assert rt.sim.aclsim_report_count() == 0
    provoke(rt)
    assert reports.take()[0]["sequence"] == taken[-1]["sequence"] + 7
    assert taken[-1]["sequence"] == taken[0]["sequence"] + 1023


def test_a_small_buffer_takes_nothing(rt: Runtime, reports: Any) -> None:
    assert rt.sim.aclsim_next_report(None, 0) == 0
    provoke(rt)
    size = rt.sim.aclsim_next_report(None, 0)
    buffer = ctypes.create_string_buffer(size)
    assert rt.sim.aclsim_next_report(buffer, size - 1) == size
    assert buffer.raw == b"\0" * size
    assert rt.sim.aclsim_next_report(buffer, size) == size
    assert len(buffer.value) == size - 1
    assert json.loads(buffer.value)["kind"] == "unknown_handle"
