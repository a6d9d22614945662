# SPDX-License-Identifier: Apache-2.0
"""What happens around calls in the life of a process: threads, forks, exits and garbage collection."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from test_lifetimes import HEAD, output, run, scatter_arguments

import aclnn_kvcache as kv
from aclnn_kvcache.runtime.descriptor import KEPT

EXPECTED = [1, 1, 0, 0, 0, 0, 0, 0]
"""The scale cache after a call of two tokens."""


def in_thread(function: Any) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


# ---- threads and sessions ----


def test_a_session_of_one_thread_is_used_and_closed_by_others(sim: Any) -> None:
    made: list[Any] = []
    in_thread(lambda: made.append(kv.Session("simulator")))
    (session,) = made
    in_thread(lambda: made.extend(scatter_arguments(session, 2)))
    session.scatter_pa_kv_cache_with_k_scale(*made[1:])
    results: list[Any] = []
    in_thread(lambda: results.append(made[-1].numpy().ravel().tolist()))
    in_thread(session.close)
    assert results == [EXPECTED]
    assert session.closed


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2, 0)])
def test_sessions_close_in_any_order_with_work_in_flight(sim: Any, order: tuple[int, ...]) -> None:
    """Two of them on one device: closing one waits for its own work and leaves the others theirs."""
    sessions = [kv.Session("simulator", device) for device in (0, 0, 1)]
    arrays = [scatter_arguments(session, 2) for session in sessions]
    for session, mine in zip(sessions, arrays, strict=True):
        session.scatter_pa_kv_cache_with_k_scale(*mine)
    for position, number in enumerate(order):
        sessions[number].close()
        for later in order[position + 1 :]:
            sessions[later].scatter_pa_kv_cache_with_k_scale(*arrays[later])
            assert arrays[later][6].numpy().ravel().tolist() == EXPECTED
    assert all(session.closed for session in sessions)


def test_a_session_on_a_device_that_another_one_closed_forces_nothing(session: kv.Session) -> None:
    for _ in range(20):
        with kv.Session("simulator") as other, kv.Session("simulator") as third:
            array = third.array(np.ones(3, np.float32))
            other.close()
            assert array.numpy().tolist() == [1, 1, 1]
    assert session.array(np.ones(2, np.float32)).numpy().tolist() == [1, 1]


def test_the_last_reference_may_go_in_another_thread(session: kv.Session, sim: Any) -> None:
    """Finalizers run there, in a thread with no context of its own, while the work is in flight."""
    for _ in range(30):
        arrays = scatter_arguments(session, 2)
        session.scatter_pa_kv_cache_with_k_scale(*arrays)
        extra = [session.create_stream(), session.create_event(), [session.array(np.ones(3, np.float32))]]
        extra.append(extra)  # only the collector finds these
        del extra[1]
        keep = arrays.pop()

        def drop(held: list[Any] = [arrays, extra]) -> None:  # noqa: B006
            held.clear()
            gc.collect()

        del arrays, extra
        in_thread(drop)
        assert keep.numpy().ravel().tolist() == EXPECTED
        del keep, drop


# ---- garbage collection at any point ----


@contextlib.contextmanager
def collecting() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Cycle:
    """Holds itself, so that only the collector frees what it holds, whenever it runs."""

    def __init__(self, *things: Any) -> None:
        self.things, self.me = things, self

    def __del__(self) -> None:
        gc.collect(0)


def test_collection_at_any_point_of_every_scenario(sim: Any) -> None:
    before = sim.counter("ACLSIM_REPORTS")
    with collecting():
        for _ in range(4):
            with kv.Session("simulator") as session:
                arrays = scatter_arguments(session, 2)
                Cycle(session, session.array(np.ones(4, np.float32)), session.create_stream(), session.create_event())
                hosts = [array.numpy() for array in arrays]
                session.scatter_pa_kv_cache_with_k_scale(*hosts)
                assert hosts[6].ravel().tolist() == EXPECTED
                side, event = session.create_stream(), session.create_event()
                session.scatter_pa_kv_cache_with_k_scale(*arrays, stream=side)
                event.record(side)
                session.stream.wait(event)
                plan = session.prepare_scatter_pa_kv_cache_with_k_scale(*arrays, stream=side)
                plan()
                Cycle(plan, side, event, arrays[:6])
                scale = arrays[6]
                del arrays, side, event, plan
                session.stream.synchronize()
                assert scale.numpy().ravel().tolist() == EXPECTED
                with pytest.raises(kv.AclnnParameterError):
                    session.scatter_pa_kv_cache_with_k_scale(*hosts[:4], np.array([0, 99], np.int32), *hosts[5:])
            Cycle(kv.Session("simulator", 1))
        gc.collect()
    assert sim.counter("ACLSIM_REPORTS") == before


def test_everything_may_be_dropped_while_it_is_in_use(sim: Any) -> None:
    """The session too: what is queued still runs, on memory that is still there."""
    before = sim.counter("ACLSIM_REPORTS"), sim.counter("ACLSIM_KERNEL_LAUNCHES")
    for _ in range(20):
        session = kv.Session("simulator")
        sim.aclsim_hold_streams()
        try:
            for _ in range(3):
                Cycle(session.scatter_pa_kv_cache_with_k_scale(*scatter_arguments(session, 2)))
            gc.collect()
        finally:
            sim.aclsim_release_streams()
        del session
        gc.collect()
    assert (sim.counter("ACLSIM_REPORTS"), sim.counter("ACLSIM_KERNEL_LAUNCHES")) == (before[0], before[1] + 60)


# ---- forks ----

TRACED = """
    from aclnn_kvcache.native.library import Library
    def trace_native_calls():
        # Every function that the binding looks up from now on says its name, whoever calls it.
        for name in [name for name in vars(sim) if name.startswith("acl")]:
            del vars(sim)[name]
        def function(self, name):
            return lambda *arguments: os.write(1, f"native {name}\\n".encode()) and 0
        Library.function = function
    def forked(child):
        pid = os.fork()
        if pid == 0:
            trace_native_calls()
            child()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    s = kv.Session("simulator"); kept = {name: s.array(a) for name, a in arrays().items()}
    other, event = s.create_stream(), s.create_event()
    plan = s.prepare_scatter_pa_kv_cache_with_k_scale(**kept)
"""


def test_the_trace_of_native_calls_sees_them() -> None:
    assert "native aclrtSynchronizeStreamWithTimeout\n" in run(
        TRACED + "    trace_native_calls()\n    other.synchronize()\n    os._exit(0)"
    ).stdout.replace("aclrtGetCurrentContext", "")


def test_every_first_call_of_a_forked_child_raises_at_once() -> None:
    """No native call, whichever it is; and the parent goes on."""
    assert output(
        TRACED
        + """
    uses = dict(
        array=lambda: s.array(np.ones(3)), empty=lambda: s.empty(3, np.float32), soc=lambda: s.soc_name,
        borrow=lambda: s.borrow_array(64, 3, np.float32), stream=s.create_stream, event=s.create_event,
        borrow_stream=lambda: s.borrow_stream(64), device=lambda: s.scatter_pa_kv_cache_with_k_scale(**kept),
        host=lambda: s.scatter_pa_kv_cache_with_k_scale(**arrays()), read=kept["key"].numpy,
        synchronize=other.synchronize, query=other.query, record=lambda: event.record(other),
        plan=plan, update=lambda: plan.update(key=kept["key"]),
        prepare=lambda: s.prepare_scatter_pa_kv_cache_with_k_scale(**kept),
        wait=lambda: other.wait(event), await_event=event.synchronize, new=lambda: kv.Session("simulator"),
    )
    def child(use):
        try: use()
        except kv.ForkedProcessError as error: os._exit(0 if "spawn" in str(error) else 1)
        except BaseException as error: print(repr(error), flush=True)
        os._exit(2)
    print({name: code for name, use in uses.items() if (code := forked(lambda: child(use)))})
    s.scatter_pa_kv_cache_with_k_scale(**kept)
    print(kept["key_scale_cache"].numpy().ravel().tolist())
    s.close(); print(calls())
"""
    ).splitlines() == ["{}", str([float(value) for value in EXPECTED]), "(1, 1)"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(7)", 7),
        ("return_to_the_end()", 0),
        ("s.close(); kept['key'].close(); other.close(); event.close(); sys.exit(3)", 3),
        ("del globals()['s'], globals()['kept'], globals()['other']; gc.collect(); sys.exit(4)", 4),
        ("os._exit(5)", 5),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True])
def test_the_exit_of_a_forked_child_runs_nothing_native(end: str, code: int, in_flight: bool) -> None:
    held = "sim.aclsim_hold_streams(); s.scatter_pa_kv_cache_with_k_scale(**kept)" if in_flight else "pass"
    printed = output(
        TRACED
        + f"""
    import sys
    def return_to_the_end(): pass
    s.cycle = [s, kept]
    {held}
    pid = os.fork()
    if pid == 0:
        trace_native_calls()
        {end}
    else:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sim.aclsim_release_streams()
        s.scatter_pa_kv_cache_with_k_scale(**kept)
        print(code, kept["key_scale_cache"].numpy().ravel().tolist()); s.close(); print(calls())
"""
    ).splitlines()
    assert printed == [f"{code} {[float(value) for value in EXPECTED]}", "(1, 1)"]


def test_a_child_of_multiprocessing_by_fork_is_told() -> None:
    assert output(
        TRACED
        + """
    import multiprocessing
    def work(end):
        try: s.array(np.ones(3))
        except kv.ForkedProcessError: end.send("told")
    context = multiprocessing.get_context("fork")
    mine, end = context.Pipe()
    process = context.Process(target=work, args=(end,))
    process.start(); end.close(); print(mine.recv()); process.join(30); print(process.exitcode)
"""
    ).split() == ["told", "0"]


# ---- the end of the interpreter ----

LIVE = """
    s = kv.Session("simulator"); kept = {name: s.array(a) for name, a in arrays().items()}
    class Node: pass
    node = Node(); node.me = node; node.things = [s, kept, s.create_stream(), s.create_event()]
    plan = node.plan = s.prepare_scatter_pa_kv_cache_with_k_scale(**kept); plan()
    local = threading.local(); local.things = [s.array(np.ones(3)), s.create_stream()]
    import builtins; builtins.kept_by_builtins = (s, [s.array(np.ones(3))])
    s.scatter_pa_kv_cache_with_k_scale(**kept)
"""


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [
        ("", 0, ""),
        ("del node", 0, ""),
        ("import sys; sys.exit(5)", 5, ""),
        ("import sys; sys.exit('no')", 1, "no"),
        ("raise ValueError('mine')", 1, "ValueError: mine"),
        ("raise KeyboardInterrupt", -signal.SIGINT, "KeyboardInterrupt"),
        ("with s: raise ValueError('mine')", 1, "ValueError: mine"),
        ("with s: raise SystemExit(6)", 6, ""),
        ("os._exit(9)", 9, ""),
        ("os.kill(os.getpid(), 15)", -signal.SIGTERM, ""),
    ],
)  # fmt: skip
def test_how_the_program_ends_is_how_it_ends(end: str, code: int, error: str) -> None:
    result = run(f"{LIVE}    {end}\n")
    assert result.returncode == code
    last = (result.stderr.strip().splitlines() or [""])[-1]
    assert last == error
    assert "aclnn_kvcache" not in result.stderr
    assert result.stdout == ""


def test_threads_that_still_call_at_the_end_are_told() -> None:
    """Daemon threads, stopped wherever they are."""
    for _ in range(3):
        assert (
            output("""
        s = kv.Session("simulator"); kept = {name: s.array(a) for name, a in arrays().items()}
        def for_ever():
            try:
                while True: s.scatter_pa_kv_cache_with_k_scale(**kept); s.scatter_pa_kv_cache_with_k_scale(**arrays())
            except kv.ClosedError: pass
        for _ in range(4): threading.Thread(target=for_ever, daemon=True).start()
        import time; time.sleep(0.1); print("end")
    """)
            == "end"
        )


def test_ctrl_c_ends_the_wait_at_the_end() -> None:
    """Of work that hangs; the exit code stays the program's."""
    program = HEAD + (
        "import atexit\n"
        's = kv.Session("simulator"); kept = {name: s.array(a) for name, a in arrays().items()}\n'
        'atexit.register(print, "waits", flush=True)\n'
        "sim.aclsim_hold_streams(); s.scatter_pa_kv_cache_with_k_scale(**kept); raise SystemExit(3)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 3  # the wait alone would take 30


# ---- many calls ----


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


SANITIZED = "LD_PRELOAD" in os.environ
"""Sanitizers keep what is freed, and take their time."""

CALLS = 1000 if SANITIZED else 10_000


@pytest.mark.parametrize("kind", ["device", "host", "plan"])
def test_many_calls_grow_nothing(session: kv.Session, sim: Any, kind: str) -> None:
    arrays: list[Any] = scatter_arguments(session, 2)
    if kind == "host":
        arrays = [array.numpy() for array in arrays]

    call: Callable[[], Any] = partial(session.scatter_pa_kv_cache_with_k_scale, *arrays)
    if kind == "plan":
        call = session.prepare_scatter_pa_kv_cache_with_k_scale(*arrays)

    def calls(count: int) -> tuple[int, int, dict[str, int]]:
        for number in range(count):
            call()
            if number % 500 == 0:
                session.stream.synchronize()
        session.stream.synchronize()
        return resident_bytes(), len(gc.get_objects()), sim.live()

    calls(1000)
    resident, objects, live = calls(1000)
    resident_after, objects_after, live_after = calls(CALLS)
    # Events are kept for use again: as many as have been in flight between two synchronises.
    assert max(counts.pop("ACLSIM_LIVE_EVENTS", 0) for counts in (live, live_after)) <= 500
    assert live_after == live
    # A stream keeps a bounded number of descriptors, how many depends on where host arrays happen to be uploaded.
    assert objects_after - objects < 100 + KEPT
    assert SANITIZED or resident_after - resident < 4 << 20
