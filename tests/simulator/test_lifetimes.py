# SPDX-License-Identifier: Apache-2.0
"""Who owns what: ACL, the device, threads, fork, interpreter exit. Cases D6 and D9."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.launch import Executor
from aclnn_kvcache.oracle.fp8 import to_e4m3fn
from aclnn_kvcache.rules.scatter_pa_kv_cache_with_k_scale import API, NAMES

HEAD = textwrap.dedent("""
    import ctypes, os, threading, gc
    import numpy as np, ml_dtypes
    import aclnn_kvcache as kv
    from aclnn_kvcache.native.library import load
    sim = load("simulator")
    def arrays(tokens=2):
        fp8 = lambda *shape: np.zeros(shape, ml_dtypes.float8_e4m3fn)
        return dict(key=fp8(tokens, 1, 8), value=fp8(tokens, 1, 8), key_cache=fp8(2, 1, 4, 8),
            value_cache=fp8(2, 1, 4, 8), slot_mapping=np.arange(tokens, dtype=np.int32),
            key_scale=np.ones((tokens, 1), np.float32), key_scale_cache=np.zeros((2, 1, 4, 1), np.float32))
    def calls(): return sim.aclsim_counter(9), sim.aclsim_counter(10)
""")


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Runs the code in a process of its own, with what HEAD defines at hand."""
    source = HEAD + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)


def output(code: str, *reports: str) -> str:
    """What the code prints; it must end well and say nothing on standard error but these reports."""
    result = run(code)
    assert (result.returncode, len(result.stderr.splitlines())) == (0, len(reports)), result.stderr
    assert re.findall(r"aclsim: (\w+: \w+) in ", result.stderr) == list(reports)
    return result.stdout.strip()


def scatter_arguments(session: kv.Session, tokens: int) -> list[kv.DeviceArray]:
    fp8 = to_e4m3fn
    shapes = [(tokens, 1, 8)] * 2 + [(2, 1, 4, 8)] * 2
    arrays = [session.array(fp8(np.ones(shape, np.float32))) for shape in shapes]
    arrays.append(session.array(np.arange(tokens, dtype=np.int32)))
    return [*arrays, session.array(np.ones((tokens, 1), np.float32)), session.array(np.zeros((2, 1, 4, 1), np.float32))]


@pytest.mark.parametrize(("tokens", "sized"), [(2, True), (0, False)])
def test_d6_an_executor_runs_once(session: kv.Session, sim: Any, tokens: int, sized: bool) -> None:
    arrays = scatter_arguments(session, tokens)
    assert len(arrays) == len(NAMES)
    device = session.stream.device
    with device.bound():
        executor = Executor(device, API, session.stream.descriptors.native([*arrays, None]))
        executor.size()
    assert (executor.workspace_size > 0) == sized
    launches, misuses = sim.counter("ACLSIM_KERNEL_LAUNCHES"), sim.counter("ACLSIM_REPORTS")
    with device.bound():
        executor.place(session.stream)
        executor.run()
        with pytest.raises(kv.ExecutorConsumedError, match="already consumed"):
            executor.run()
    executor.close()
    session.stream.synchronize()
    assert sim.counter("ACLSIM_KERNEL_LAUNCHES") - launches == sized
    assert sim.counter("ACLSIM_REPORTS") == misuses


def test_an_executor_that_never_ran_is_destroyed(session: kv.Session, sim: Any) -> None:
    device = session.stream.device
    with device.bound():
        executor = Executor(device, API, session.stream.descriptors.native([*scatter_arguments(session, 2), None]))
        executor.size()
    assert sim.counter("ACLSIM_LIVE_EXECUTORS") == 1
    executor.close()
    assert sim.counter("ACLSIM_LIVE_EXECUTORS") == 0


class Interrupting:
    """Stands for a C object in whose place Ctrl-C arrives."""

    @property
    def value(self) -> int:
        return 0

    @value.setter
    def value(self, _: object) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_while_arguments_change_leaves_no_mixture(session: kv.Session) -> None:
    descriptors = session.stream.descriptors
    first, second = (descriptors.native([*scatter_arguments(session, 2), None]) for _ in range(2))
    executor = Executor(session.stream.device, API, first)
    converted = executor._arguments
    kept, converted[1] = converted[1], Interrupting()
    with pytest.raises(KeyboardInterrupt):
        executor.take(second)
    converted[1] = kept
    executor.take(first)
    assert [argument.value for argument in converted[: len(NAMES)]] == first[: len(NAMES)]


def test_d9_two_sessions_initialise_and_finalise_once() -> None:
    assert output("""
        first, second = kv.Session("simulator"), kv.Session("simulator", 1)
        first.close(); first.close(); print(calls())
        second.close(); print(calls()); second.close(); print(calls())
    """).splitlines() == ["(1, 0)", "(1, 1)", "(1, 1)"]


def test_d9_acl_of_somebody_else_is_not_finalised() -> None:
    assert output(
        """
        assert sim.aclInit(None) == 0
        with kv.Session("simulator") as s: s.scatter_pa_kv_cache_with_k_scale(**arrays())
        print(calls()[1]); print(sim.aclFinalize(), sim.aclFinalize())
    """,
        "api: repeated_init",
        "api: repeated_finalize",
    ).splitlines() == ["0", "0 100037"]


def test_a_later_user_of_acl_keeps_it() -> None:
    assert (
        output(
            """
        s = kv.Session("simulator")
        assert sim.aclInit(None) == 100002
        s.close()
        print(sim.aclrtSetDevice(0), sim.aclrtResetDevice(0), sim.aclFinalize())
    """,
            "api: repeated_init",
        )
        == "0 0 0"
    )


def test_a_session_can_be_opened_again() -> None:
    assert (
        output("""
        for _ in range(3):
            with kv.Session("simulator") as s: s.scatter_pa_kv_cache_with_k_scale(**arrays())
        print(calls())
    """)
        == "(3, 3)"
    )


@pytest.mark.parametrize(
    "held", ["", "sim.aclsim_hold_streams(); threading.Timer(0.2, sim.aclsim_release_streams).start()"]
)
def test_interpreter_exit_with_everything_open_is_silent(held: str) -> None:
    assert (
        output(f"""
        s = kv.Session("simulator")
        kept = {{name: s.array(a) for name, a in arrays().items()}}
        {held}
        s.scatter_pa_kv_cache_with_k_scale(**kept)
        other, event = s.create_stream(), s.create_event()
        s.cycle = [s]
        print("end")
    """)
        == "end"
    )


def test_a_dropped_session_gives_the_device_back() -> None:
    assert output("""
        s = kv.Session("simulator"); a = s.array(np.ones(5, np.float32)); del s; gc.collect()
        print(a.numpy().sum()); del a; gc.collect(); print(calls(), sim.aclsim_counter(0), sim.aclsim_counter(4))
    """).splitlines() == ["5.0", "(1, 1) 0 0"]


def test_a_forked_child_is_told_and_does_not_hang() -> None:
    assert (
        output("""
        s = kv.Session("simulator"); a = s.array(np.ones(3, np.float32))
        pid = os.fork()
        if pid == 0:
            for use in (lambda: s.array(np.ones(3)), a.numpy, lambda: kv.Session("simulator")):
                try: use()
                except kv.ForkedProcessError as error: assert "spawn" in str(error)
                else: os._exit(1)
            a.close(); s.close()
            raise SystemExit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), a.numpy().sum())
        s.close()
    """)
        == "7 3.0"
    )


def test_the_exit_code_of_the_program_stays() -> None:
    result = run('s = kv.Session("simulator"); s.array(np.ones(3)); raise SystemExit(5)')
    assert (result.returncode, result.stderr) == (5, "")


def test_any_thread_may_call(session: kv.Session, sim: Any) -> None:
    results: list[float] = []

    def use() -> None:
        array = session.array(np.full(4, 2, np.float32))
        results.append(float(array.numpy().sum()))
        array.close()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [8.0] * 8


def test_the_context_that_was_current_is_put_back(session: kv.Session, sim: Any) -> None:
    import ctypes

    current = ctypes.c_int32()
    assert sim.aclrtSetDevice(1) == 0
    session.array(np.ones(3, np.float32)).close()
    with kv.Session("simulator", 0):
        assert sim.aclrtGetDevice(ctypes.byref(current)) == 0
        assert current.value == 1
    assert sim.aclrtGetDevice(ctypes.byref(current)) == 0
    assert current.value == 1
    assert sim.aclrtResetDevice(1) == 0


def test_closing_a_session_closes_what_it_made() -> None:
    session = kv.Session("simulator")
    array, stream, event = session.array(np.ones(3, np.float32)), session.create_stream(), session.create_event()
    session.close()
    for use in (array.numpy, stream.synchronize, event.query, lambda: session.array(np.ones(3, np.float32))):
        with pytest.raises(kv.ClosedError):
            use()
    for thing in (array, stream, event, session):
        thing.close()
    assert session.closed


@pytest.mark.usefixtures("reports")
def test_a_fault_nobody_waited_for_is_raised_by_close() -> None:
    session = kv.Session("simulator")
    arrays = scatter_arguments(session, 2)
    arrays[3] = session.borrow_array(64, (2, 1, 4, 8), arrays[3].dtype)
    session.scatter_pa_kv_cache_with_k_scale(*arrays)
    with pytest.raises(kv.DeviceFaultError):
        session.close()
    assert session.closed


@pytest.mark.usefixtures("reports")
def test_a_device_that_hangs_can_be_abandoned(sim: Any) -> None:
    session = kv.Session("simulator")
    arrays = scatter_arguments(session, 2)
    sim.aclsim_hold_streams()
    session.scatter_pa_kv_cache_with_k_scale(*arrays)
    with pytest.raises(kv.SynchronizeTimeoutError) as caught:
        session.stream.synchronize(timeout=0.05)
    assert caught.value.status == 507046
    session.abandon()
    sim.aclsim_release_streams()
    assert session.closed
    session.close()


def test_no_such_device_is_named() -> None:
    with pytest.raises(kv.DeviceUnavailableError, match=r"aclrtSetDevice\(2\) answered 107001"):
        kv.Session("simulator", 2)
    with pytest.raises(
        kv.ArgumentError, match="device: expected an index among the visible devices, from 0 to 2147483647, got '0'"
    ):
        kv.Session("simulator", "0")  # type: ignore[arg-type]


def test_the_session_says_what_it_is(session: kv.Session) -> None:
    assert session.backend == "simulator"
    assert session.soc_name == "Ascend950PR_9599"
    assert session.cann_version == "9.1.0"
    assert [os.path.basename(path) for path in session.libraries[:2]] == ["libascendcl.so", "libnnopbase.so"]
