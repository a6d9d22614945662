# SPDX-License-Identifier: Apache-2.0
"""Faults of work that nobody synchronised for: told at the end, whatever it is, which stays what it is."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from test_lifetimes import run, scatter_arguments

import aclnn_kvcache as kv

FAILING = """
    s = kv.Session("simulator"); kept = {name: s.array(a) for name, a in arrays().items()}
    sim.aclsim_set_faults(b"kernel:aclnnScatterPaKvCacheWithKScale#2=507035")
    for _ in range(2): s.scatter_pa_kv_cache_with_k_scale(**kept)
"""
PLAN = b"kernel:aclnnScatterPaKvCacheWithKScale#1=507035"

AT_EXIT = "the close of a session at the end of the interpreter"
COLLECTED = "the collection of the session on device 0"
CLOSING = "closing <Session simulator device 0>"
FAULT = "DeviceFaultError: aclrtSynchronizeStreamWithTimeout answered 507035 "
LAUNCHES = (
    "one of the launches since the last good synchronise failed: aclnnScatterPaKvCacheWithKScale (launch 1), "
    "aclnnScatterPaKvCacheWithKScale (launch 2);"
)

HAS_NOTES = sys.version_info >= (3, 11)
NOTE = f"{CLOSING} failed too: {FAULT}" if HAS_NOTES else CLOSING


@pytest.mark.parametrize(
    ("end", "code", "told"),
    [
        ("", 0, AT_EXIT),
        ("raise SystemExit(4)", 4, AT_EXIT),
        ("raise ValueError('mine')", 1, AT_EXIT),
        ("raise KeyboardInterrupt", -signal.SIGINT, AT_EXIT),
        ("del s, kept; gc.collect(); os._exit(3)", 3, COLLECTED),
        ("with s: raise SystemExit(6)", 6, CLOSING),
        ("with s: raise ValueError('mine')", 1, NOTE),
        ("with s: raise KeyboardInterrupt", -signal.SIGINT, NOTE),
    ],
)
def test_the_end_of_a_program_tells_them_once(end: str, code: int, told: str) -> None:
    result = run(f"{FAILING}    {end}\n")
    assert (result.returncode, result.stdout) == (code, "")
    for text in (told, FAULT, LAUNCHES):
        assert result.stderr.count(text) == 1, result.stderr
    if "'mine'" in end:
        assert "\nValueError: mine\n" in result.stderr


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What came to ``sys.unraisablehook``."""
    found: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", found.append)
    yield found
    found.clear()


def note_on(error: BaseException, told: list[Any]) -> str:
    if HAS_NOTES:
        assert told == []
        (note,) = error.__notes__
        return str(note)
    (aside,) = told
    return f"{aside.object!r} failed too: {type(aside.exc_value).__name__}: {aside.exc_value.report()}"


def test_the_exception_that_ends_a_block_stays(sim: Any, told: list[Any]) -> None:
    session = kv.Session("simulator")
    mine = KeyError("mine")
    sim.aclsim_set_faults(PLAN)
    session.scatter_pa_kv_cache_with_k_scale(*scatter_arguments(session, 2))
    with pytest.raises(KeyError) as caught, session:
        raise mine
    sim.aclsim_set_faults(None)
    assert caught.value is mine
    assert mine.__context__ is None
    assert session.closed
    note = note_on(mine, told)
    assert note.startswith(f"{CLOSING} failed too: {FAULT}")
    assert "the only launch since the last good synchronise is aclnnScatterPaKvCacheWithKScale (launch 1)" in note


def test_the_end_of_a_plan_keeps_the_exception_too(session: kv.Session, sim: Any, told: list[Any]) -> None:
    arrays = scatter_arguments(session, 2)
    arrays[2] = session.array(np.zeros((2, 1, 4, 16), arrays[2].dtype))[..., :8]
    mine = KeyboardInterrupt()
    sim.aclsim_set_faults(PLAN)
    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(*arrays)
    assert plan.mode == "repeatable"  # others are not waited for
    plan()
    with pytest.raises(KeyboardInterrupt) as caught, plan:
        raise mine
    sim.aclsim_set_faults(None)
    assert caught.value is mine
    assert plan.closed
    closing = "closing <Plan scatter_pa_kv_cache_with_k_scale repeatable>"
    assert note_on(mine, told).startswith(f"{closing} failed too: {FAULT}")


def test_a_fault_that_close_raised_is_not_told_again(sim: Any, told: list[Any]) -> None:
    for is_dropped in (False, True):
        session = kv.Session("simulator")
        sim.aclsim_set_faults(PLAN)
        stream = session.create_stream()
        session.scatter_pa_kv_cache_with_k_scale(*scatter_arguments(session, 2), stream=stream)
        del stream  # its end learns of the fault
        sim.aclsim_set_faults(None)
        if not is_dropped:
            with pytest.raises(kv.DeviceFaultError) as caught:
                session.close()
            assert [launch.number for launch in caught.value.launches] == [1]
            session.close()
            del caught
        del session
        gc.collect()
        assert len(told) == is_dropped
    assert (type(told[0].exc_value), told[0].exc_value.status) == (kv.DeviceFaultError, 507035)
    assert [launch.operator for launch in told[0].exc_value.launches] == ["aclnnScatterPaKvCacheWithKScale"]
