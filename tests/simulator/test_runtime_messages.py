# SPDX-License-Identifier: Apache-2.0
"""What failures leave behind: messages and the last error, both of the thread."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from typing import Any

import pytest
from runtime_calls import Runtime

STAMP = r"\[PID: (\d+)\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} "


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Runtime:
    runtime = Runtime(sim)
    runtime.message()
    sim.aclrtGetLastError(0)
    return runtime


def test_layout_of_one_message(rt: Runtime) -> None:
    assert rt.message() is None
    assert rt.code("aclrtSetDevice", 5) == 107001
    message = rt.message()
    match = re.fullmatch(STAMP + r"Invalid_Argument\(EE1003\): (.*)\n", message)
    assert match is not None, message
    assert int(match[1]) == os.getpid()
    assert match[2] == "aclrtSetDevice failed with 107001: deviceId is 5; expected 0 to 1."
    assert rt.message() is None


def test_a_solution_is_indented(rt: Runtime) -> None:
    assert rt.sim.aclsim_set_checks(b"none") == 0  # reports are messages, too
    assert rt.code("aclrtSynchronizeDevice") == 107002
    lines = rt.message().splitlines()
    assert re.match(STAMP + r"Invalid_Argument\(EE1001\): ", lines[0])
    assert lines[1].startswith("        Solution: Call aclrtSetDevice")
    assert len(lines) == 2


def test_the_newest_comes_first_and_the_others_are_its_trace(rt: Runtime) -> None:
    for device in (7, 8, 9):
        rt.code("aclrtSetDevice", device)
    lines = rt.message().splitlines()
    assert "deviceId is 9" in lines[0]
    assert lines[1] == "TraceBack (most recent call last):"
    assert ["deviceId is 8" in lines[2], "deviceId is 7" in lines[3]] == [True, True]
    assert all(line.startswith("        [PID: ") for line in lines[2:])


def test_success_keeps_messages_and_repeats_are_dropped(rt: Runtime) -> None:
    for _ in range(3):
        rt.code("aclrtSetDevice", 5)
    rt.sim.aclrtGetSocName()
    assert rt.message().count("deviceId is 5") == 1


def test_a_thousand_are_kept(rt: Runtime) -> None:
    for device in range(100, 1200):
        rt.code("aclrtSetDevice", device)
    message = rt.message()
    assert message.count("deviceId is") == 1000
    assert "deviceId is 200;" in message
    assert "deviceId is 199;" not in message


def test_threads_have_their_own(rt: Runtime) -> None:
    rt.code("aclrtSetDevice", 5)
    seen: list[Any] = []

    def look() -> None:
        seen.extend([rt.message(), rt.code("aclrtPeekAtLastError", 0)])
        rt.code("aclrtSetDevice", 6)
        seen.append("deviceId is 6" in rt.message())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [None, 0, True]
    assert "deviceId is 5" in rt.message()


def test_null_pointers_are_named(rt: Runtime) -> None:
    assert rt.code("aclrtGetMemInfo", 1, None, None) == 100000
    assert "Invalid_Argument_Null_Pointer(EH0008): aclrtGetMemInfo failed with 100000: free is NULL" in rt.message()


def test_the_last_error(rt: Runtime) -> None:
    assert rt.code("aclrtPeekAtLastError", 0) == 0
    rt.code("aclrtSetDevice", 5)
    rt.sim.aclrtGetSocName()
    assert [rt.code("aclrtPeekAtLastError", 0) for _ in range(2)] == [107001, 107001]
    assert [rt.code("aclrtGetLastError", 0) for _ in range(2)] == [107001, 0]
    assert rt.code("aclrtGetLastError", 1) == 100000
    assert rt.code("aclrtPeekAtLastError", ctypes.c_int(1)) == 100000
