# SPDX-License-Identifier: Apache-2.0
"""What a failure says: late faults name the launches, blocking mode the call, refusals the arguments."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv

E4M3 = ml_dtypes.float8_e4m3fn
SCATTER = "aclnnScatterPaKvCacheWithKScale"


def arguments(session: kv.Session) -> dict[str, kv.DeviceArray]:
    host = {
        "key": np.ones((3, 2, 16), E4M3),
        "value": np.ones((3, 2, 16), E4M3),
        "key_cache": np.zeros((4, 2, 4, 16), E4M3),
        "value_cache": np.zeros((4, 2, 4, 16), E4M3),
        "slot_mapping": np.array([0, 5, 15], np.int32),
        "key_scale": np.ones((3, 2), np.float32),
        "key_scale_cache": np.zeros((4, 2, 4, 1), np.float32),
    }
    return {name: session.array(array) for name, array in host.items()}


def faulty(session: kv.Session, good: dict[str, kv.DeviceArray]) -> dict[str, kv.DeviceArray]:
    """A call whose value cache is no device memory: the kernel fails."""
    return {**good, "value_cache": session.borrow_array(64, (4, 2, 4, 16), E4M3)}


@pytest.mark.usefixtures("reports")
def test_a_late_fault_lists_the_launches_since_the_last_good_synchronise(session: kv.Session) -> None:
    good = arguments(session)
    session.scatter_pa_kv_cache_with_k_scale(**good)
    session.stream.synchronize()
    session.scatter_pa_kv_cache_with_k_scale(**good)
    session.scatter_pa_kv_cache_with_k_scale(**faulty(session, good))
    session.scatter_pa_kv_cache_with_k_scale(**good, cache_layout="BNBD")
    with pytest.raises(kv.DeviceFaultError) as caught:
        session.stream.synchronize()
    error = caught.value
    assert [(launch.number, launch.operator) for launch in error.launches] == [(n, SCATTER) for n in (2, 3, 4)]
    assert error.launches[2].attributes == (("cache_layout", "BNBD"), ("padding", "error"))
    key = error.launches[0].arguments[0]
    assert key == ("key", "device", "float8_e4m3fn", (3, 2, 16), (32, 16, 1), True)
    first = str(error).splitlines()[0]
    assert "507035 ACL_ERROR_RT_VECTOR_CORE_EXCEPTION" in first
    assert f"{SCATTER} (launch 2), {SCATTER} (launch 3), {SCATTER} (launch 4); Session(blocking=True)" in first
    assert "ACLNN_KVCACHE_BLOCKING=1" in first
    assert "  key              device float8_e4m3fn [3, 2, 16] strides [32, 16, 1] contiguous" in error.report()
    assert error.library.endswith("libascendcl.so")
    assert error.cann_version == "9.1.0"
    twin = pickle.loads(pickle.dumps(error))
    assert (twin.launches, twin.report()) == (error.launches, error.report())
    session.stream.synchronize()
    session.scatter_pa_kv_cache_with_k_scale(**faulty(session, good))
    with pytest.raises(kv.DeviceFaultError) as again:
        good["key"].numpy()
    assert [launch.number for launch in again.value.launches] == [5]
    assert f"the only launch since the last good synchronise is {SCATTER} (launch 5)" in str(again.value)


@pytest.mark.usefixtures("reports")
def test_a_fault_seen_by_an_event_lists_the_launches_too(session: kv.Session) -> None:
    session.scatter_pa_kv_cache_with_k_scale(**faulty(session, arguments(session)))
    event = session.create_event()
    event.record(session.stream)
    caught: list[kv.DeviceFaultError] = []
    for wait in (event.synchronize, session.stream.synchronize):
        try:
            wait()
        except kv.DeviceFaultError as error:
            caught.append(error)
    assert [[launch.number for launch in error.launches] for error in caught] == [[1]]


@pytest.mark.usefixtures("reports")
def test_blocking_mode_blames_the_call_that_made_the_fault() -> None:
    with kv.Session(backend="simulator", blocking=True) as session:
        good = arguments(session)
        session.scatter_pa_kv_cache_with_k_scale(**good)
        assert session.stream.query()
        with pytest.raises(kv.DeviceFaultError) as caught:
            session.scatter_pa_kv_cache_with_k_scale(**faulty(session, good))
        error = caught.value
        assert (error.status, error.operator, len(error.launches)) == (507035, SCATTER, 1)
        assert [facts.name for facts in error.arguments] == list(good)
        assert dict(error.attributes) == {"cache_layout": None, "padding": "error"}
        session.scatter_pa_kv_cache_with_k_scale(**good)


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize(("text", "blocks"), [("1", True), ("0", False), ("", False)])
def test_the_environment_makes_sessions_blocking(
    monkeypatch: pytest.MonkeyPatch, sim: Any, text: str, blocks: bool
) -> None:
    monkeypatch.setenv("ACLNN_KVCACHE_BLOCKING", text)
    with kv.Session(backend="simulator") as session:
        good = arguments(session)
        if blocks:
            with pytest.raises(kv.DeviceFaultError):
                session.scatter_pa_kv_cache_with_k_scale(**faulty(session, good))
        else:
            session.scatter_pa_kv_cache_with_k_scale(**faulty(session, good))
            with pytest.raises(kv.DeviceFaultError):
                session.stream.synchronize()


def test_other_words_for_blocking_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLNN_KVCACHE_BLOCKING", "yes")
    with pytest.raises(kv.ArgumentError, match=r"ACLNN_KVCACHE_BLOCKING: expected 1, 0 or nothing, got 'yes'"):
        kv.Session(backend="simulator")
    with pytest.raises(kv.ArgumentError, match=r"blocking: expected True, False, or None"):
        kv.Session(backend="simulator", blocking=1)  # type: ignore[arg-type]


def test_a_refused_call_carries_its_arguments_library_and_version(session: kv.Session) -> None:
    call = {**arguments(session), "key": None}
    with pytest.raises(kv.AclnnParameterError) as caught:
        session.scatter_pa_kv_cache_with_k_scale(**call)
    error = caught.value
    assert (error.status, error.phase, error.operator) == (161001, None, SCATTER)
    assert error.arguments[0] == ("key", "NULL", "", (), (), True)
    assert error.arguments[1].place == "device"
    assert (error.library.rpartition("/")[2], error.cann_version) == ("libopapi.so", "9.1.0")
    assert pickle.loads(pickle.dumps(error)).report() == error.report()


def test_memory_that_is_exhausted_says_so_in_its_first_line(session: kv.Session) -> None:
    with pytest.raises(kv.OutOfDeviceMemory) as caught:
        session.empty((9, 1 << 30), np.uint8)
    first = str(caught.value).splitlines()[0]
    assert "aclrtMalloc answered 207001" in first
    assert "asked for 9663676416 bytes; device 0 has " in first
    assert "What to do: " in first
