# SPDX-License-Identifier: Apache-2.0
"""Closing from other threads, finalizers and signal handlers; interrupts; integers that do not fit; scalars."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_lifetimes import run, scatter_arguments

import aclnn_kvcache as kv


def call_for_ever(session: kv.Session, arrays: Any, errors: list[type[BaseException]]) -> None:
    try:
        while True:
            session.scatter_pa_kv_cache_with_k_scale(*arrays)
            session.array(np.ones(4, np.float32)).numpy()
    except Exception as error:
        errors.append(type(error))


def test_closing_while_other_threads_call(sim: Any) -> None:
    """Nobody uses a handle that the close destroyed, and nothing is left: the fixture looks."""
    misuses = sim.counter("ACLSIM_REPORTS")
    for _ in range(15):
        session = kv.Session("simulator")
        arrays = scatter_arguments(session, 2)
        errors: list[type[BaseException]] = []
        threads = [threading.Thread(target=call_for_ever, args=(session, arrays, errors)) for _ in range(5)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        session.close()
        for thread in threads:
            thread.join()
        assert errors == [kv.ClosedError] * 5
    assert sim.counter("ACLSIM_REPORTS") == misuses


def test_finalizers_of_the_program_may_close_arrays(session: kv.Session) -> None:
    class Model:
        def __init__(self) -> None:
            self.array = session.array(np.ones(4, np.float32))
            self.me = self

        def __del__(self) -> None:
            self.array.close()

    before = gc.get_threshold()
    gc.set_threshold(3, 2, 2)
    try:
        for _ in range(300):
            Model()
    finally:
        gc.set_threshold(*before)


def test_signal_handlers_may_close_arrays(session: kv.Session) -> None:
    arrays = [session.array(np.ones(4, np.float32)) for _ in range(200)]

    def close_one(*_: Any) -> None:
        if arrays:
            arrays.pop().close()

    before = signal.signal(signal.SIGALRM, close_one)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        deadline = time.monotonic() + 60
        while arrays and time.monotonic() < deadline:
            session.array(np.ones(4, np.float32)).numpy()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not arrays


def test_ctrl_c_ends_a_wait(session: kv.Session, held: Any) -> None:
    session.scatter_pa_kv_cache_with_k_scale(*scatter_arguments(session, 2))
    timer = threading.Timer(0.2, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        session.stream.synchronize()
    assert time.monotonic() - start < 10
    held.aclsim_release_streams()
    session.stream.synchronize()


def test_interrupts_never_free_memory_in_use() -> None:
    """A signal handler that raises at arbitrary places of calls; afterwards no fault, no misuse, and right values."""
    result = run("""
        import signal, time
        class Interrupt(Exception): pass
        def interrupt(*_): raise Interrupt
        s = kv.Session("simulator")
        hosts = arrays(); kept = {name: s.array(a) for name, a in hosts.items()}
        signal.signal(signal.SIGALRM, interrupt)
        count, deadline = 0, time.monotonic() + 20
        while count < 200 and time.monotonic() < deadline:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + (count % 17) * 0.0001)
                s.scatter_pa_kv_cache_with_k_scale(**hosts); s.scatter_pa_kv_cache_with_k_scale(**kept)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Interrupt: count += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        s.stream.synchronize()
        key_scale_cache = s.array(np.zeros((2, 1, 4, 1), np.float32))
        s.scatter_pa_kv_cache_with_k_scale(**{**kept, "key_scale_cache": key_scale_cache})
        print(count > 10, key_scale_cache.numpy().ravel().tolist(), sim.aclsim_counter(12))
        s.close()
    """)
    # Python itself writes about an interrupt that hit a finalizer.
    assert (result.returncode, result.stdout) == (0, "True [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0] 0\n")


@pytest.fixture
def ctrl_c() -> Callable[[], None]:
    """Sends one soon."""
    return lambda: threading.Timer(
        0.3, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    ).start()


def test_an_interrupted_close_leaves_the_array_open(session: kv.Session, held: Any, ctrl_c: Callable[[], None]) -> None:
    arrays = scatter_arguments(session, 2)
    session.scatter_pa_kv_cache_with_k_scale(*arrays)
    ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        arrays[2].close()
    assert not arrays[2].closed
    ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        session.stream.close()
    assert not session.stream.closed
    event = session.create_event()
    event.record(session.stream)
    ctrl_c()
    with pytest.raises(KeyboardInterrupt):
        event.synchronize()
    held.aclsim_release_streams()
    session.stream.synchronize()
    assert arrays[6].numpy().ravel().tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    arrays[2].close()
    assert arrays[2].closed


def test_one_interrupt_ends_a_call_on_host_arrays(session: kv.Session, held: Any, ctrl_c: Callable[[], None]) -> None:
    hosts = [array.numpy() for array in scatter_arguments(session, 2)]
    ctrl_c()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        session.scatter_pa_kv_cache_with_k_scale(*hosts)
    assert time.monotonic() - start < 10
    assert not hosts[6].any()
    held.aclsim_release_streams()
    session.stream.synchronize()


def test_closing_waits_for_a_call_of_another_thread(sim: Any) -> None:
    session = kv.Session("simulator")
    hosts = [array.numpy() for array in scatter_arguments(session, 2)]
    sim.aclsim_hold_streams()
    call = threading.Thread(target=session.scatter_pa_kv_cache_with_k_scale, args=hosts)
    call.start()
    time.sleep(0.2)
    closing = threading.Thread(target=session.close)
    closing.start()
    time.sleep(0.2)
    sim.aclsim_release_streams()
    call.join()
    closing.join()
    assert session.closed
    assert hosts[6].ravel().tolist() == [1, 1, 0, 0, 0, 0, 0, 0]


def test_device_arrays_are_not_compared_by_identity(session: kv.Session) -> None:
    host = np.ones(3, np.float32)
    array = session.array(host)
    for compared in (lambda: array == host, lambda: host == array, lambda: array != array, lambda: hash(array)):
        with pytest.raises((kv.ArgumentError, TypeError)):
            compared()


def test_a_device_that_hangs_does_not_keep_the_interpreter() -> None:
    result = run("""
        from aclnn_kvcache.runtime import device
        device.EXIT_PATIENCE = 0.3
        s = kv.Session("simulator"); sim.aclsim_set_checks(b"none")  # which would tell of all that stays
        kept = {name: s.array(a) for name, a in arrays().items()}
        sim.aclsim_hold_streams()
        s.scatter_pa_kv_cache_with_k_scale(**kept)
    """)
    assert result.returncode == 0
    head, *_, failure = result.stderr.partition("  usual cause")[0].splitlines()
    assert head.endswith("the close of a session at the end of the interpreter")
    assert failure.startswith("aclnn_kvcache.errors.SynchronizeTimeoutError: ")
    assert "timed out; what was still queued is given up. What to do" in failure


def test_copying_from_nowhere_is_an_error_and_not_a_crash(session: kv.Session, sim: Any) -> None:
    with pytest.raises(kv.AclError, match="neither device memory nor memory of this process") as caught:
        session.borrow_array(4096, (8,), np.uint8).numpy()
    assert caught.value.status == 107000


@pytest.mark.usefixtures("reports")
def test_a_host_address_as_the_destination_on_the_device_is_reported(session: kv.Session, sim: Any) -> None:
    """CANN takes the direction from the addresses and says nothing; the simulator counts it and tells."""
    source, target = np.arange(8, dtype=np.uint8), np.zeros(8, np.uint8)
    misuses = sim.counter("ACLSIM_REPORTS")
    with session.stream.device.bound():
        assert sim.aclrtMemcpy(target.ctypes.data, 8, source.ctypes.data, 8, 1) == 0
    assert target.tolist() == source.tolist()
    assert sim.counter("ACLSIM_REPORTS") == misuses + 1


def test_views_of_one_element(session: kv.Session) -> None:
    array = session.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert array[1, 2].shape == ()
    assert array[1, 2].numpy() == 5
    assert [row.numpy().tolist() for row in array] == [[0, 1, 2], [3, 4, 5]]
    assert array[0][-1].numpy() == 2
    assert array.T.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert len(array) == 2
    with pytest.raises(IndexError):
        array[2]


@pytest.mark.parametrize("use", [np.asarray, lambda a: a + np.ones(3), lambda a: np.ones(3) * a, lambda a: 1.0 in a])
def test_numpy_does_not_take_a_device_array_for_a_scalar(session: kv.Session, use: Callable[[Any], Any]) -> None:
    with pytest.raises((kv.ArgumentError, TypeError)):
        use(session.array(np.ones(3, np.float32)))


BIG = 2**64


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (lambda s: kv.Session("simulator", 2**32), "device"),
        (lambda s: kv.Session("simulator", -1), "device"),
        (lambda s: kv.Session("simulator", True), "device"),
        (lambda s: kv.Session(["simulator"]), "backend"),
        (lambda s: kv.Session("simulator", library_dir=5), "library_dir"),
        (lambda s: kv.Session("simulator", library_dir=b"/tmp"), "library_dir"),
        (lambda s: kv.Session("simulator", qkv_abi="D"), "qkv_abi"),
        (lambda s: s.empty((BIG + 32,), np.uint8), "shape"),
        (lambda s: s.empty((2**62, 2**62), np.uint8), "shape"),
        (lambda s: s.empty(None, np.uint8), "shape"),
        (lambda s: s.empty(3.5, np.uint8), "shape"),
        (lambda s: s.empty(True, np.uint8), "shape"),
        (lambda s: s.empty((2, -1), np.uint8), "shape"),
        (lambda s: s.empty(2, "x"), "dtype"),
        (lambda s: s.empty(2, ">f4"), "dtype"),
        (lambda s: s.array([1, 2]), "host"),
        (lambda s: s.array(np.zeros(2, object)), "host"),
        (lambda s: s.borrow_array(BIG + 64, (2,), np.uint8), "pointer"),
        (lambda s: s.borrow_array(0, (2,), np.uint8), "pointer"),
        (lambda s: s.borrow_array(64, ("a",), np.uint8), "shape"),
        (lambda s: s.borrow_array(64, (2,), np.uint8, strides=("a",)), "strides"),
        (lambda s: s.borrow_array(64, (2,), np.uint8, strides=(1, 1)), "strides"),
        (lambda s: s.borrow_array(64, (2,), np.uint8, strides=(-1,)), "strides"),
        (lambda s: s.borrow_stream(BIG), "handle"),
        (lambda s: s.borrow_stream(None), "handle"),
        (lambda s: s.stream.wait(None), "event"),
        (lambda s: s.create_event().record(None), "stream"),
        (lambda s: s.create_event().elapsed_ms(None), "start"),
        (lambda s: s.stream.synchronize(float("nan")), "timeout"),
        (lambda s: s.stream.synchronize(-1), "timeout"),
        (lambda s: s.stream.synchronize("1"), "timeout"),
        (lambda s: s.create_event().record(s.create_event()), "stream"),
        (lambda s: s.stream.wait(s.stream), "event"),
        (lambda s: s.library_of("nope"), "function"),
    ],
)
def test_wrong_values_are_refused_by_name(session: kv.Session, wrong: Callable[[Any], Any], argument: str) -> None:
    with pytest.raises(kv.ArgumentError, match=f"^{argument}.*: expected "):
        wrong(session)


def test_numpy_integers_are_integers(session: kv.Session) -> None:
    assert session.empty(np.int64(3), np.uint8).shape == (3,)
    with kv.Session("simulator", np.int32(1)) as other:  # type: ignore[arg-type]
        assert other.device == 1


def test_a_closed_session_says_so(session: kv.Session) -> None:
    with kv.Session("simulator") as other:
        array, stream = other.array(np.ones(2, np.float32)), other.create_stream()
    uses = [array.numpy, stream.synchronize, other.create_event, other.__enter__, lambda: other.borrow_stream(64)]
    for use in uses:
        with pytest.raises(kv.ClosedError, match="session"):
            use()
