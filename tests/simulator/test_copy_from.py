# SPDX-License-Identifier: Apache-2.0
"""Device arrays that are filled from the host: values, views, queued work, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from plan_calls import E4M3, expect_scatter, scatter_arrays, uploaded

import aclnn_kvcache as kv

Array = Any

VIEWS: dict[str, Callable[[Array], Array]] = {
    "whole": lambda a: a,
    "a slice": lambda a: a[1:3],
    "one plane": lambda a: a[:, 2],
    "one element of each row": lambda a: a[..., 3],
    "every other element": lambda a: a[..., 1::2],
    "backwards": lambda a: a[::-1, :, ::-1],
    "backwards in steps": lambda a: a[::-2, 3:0:-2, 4::-3],
    "transposed": lambda a: a.transpose(2, 0, 1),
    "part of it, transposed": lambda a: a[1:, :2].transpose(1, 2, 0),
    "more axes": lambda a: a[:, None, 1:, ..., None],
    "a point": lambda a: a[1, 2, 3, ...],
    "nothing": lambda a: a[2:2],
}
"""Of an array [4, 5, 6]."""


@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.bfloat16, np.float32, np.int64])
@pytest.mark.parametrize("view", VIEWS.values(), ids=list(VIEWS))
def test_the_elements_of_a_view_are_written_and_no_others(
    session: kv.Session, view: Callable[[Array], Array], dtype: Any
) -> None:
    before = np.arange(120).reshape(4, 5, 6).astype(dtype)
    device = session.array(before)
    values = np.random.default_rng(1).integers(-99, 99, view(before).shape).astype(dtype)
    expected = before.copy()
    view(expected)[...] = values
    assert view(device).copy_from(values) is None
    assert device.numpy().tobytes() == expected.tobytes()


def test_gaps_are_not_even_read(session: kv.Session) -> None:
    """What was never written stays so: the checks would report it if this array were read as a whole."""
    device = session.empty((4, 5, 6), np.float32)
    values = np.random.default_rng(2).random((4, 6), np.float32)
    for row in range(4):
        device[row, 2].copy_from(values[row])
    assert (device[1, 2].numpy() == values[1]).all()
    assert (device[3, 2].numpy() == values[3]).all()


def test_host_arrays_of_any_strides(session: kv.Session) -> None:
    base = np.random.default_rng(3).random((6, 8), np.float32)
    device = session.array(np.zeros((4, 3), np.float32))
    for host in (
        base[::-2, ::2].T,
        base[1:5, ::-3],
        np.asfortranarray(base[:4, :3]),
        np.broadcast_to(base[0, :3], (4, 3)),
    ):
        device.copy_from(host)
        assert device.numpy().tolist() == host.tolist()
    turned = device.T
    turned.copy_from(base[3:, 4:])
    assert device.numpy().tolist() == base[3:, 4:].T.tolist()
    borrowed = session.borrow_array(device.ptr, (2, 2), np.float32, strides=(24, 4), owner=device)
    borrowed.copy_from(base[:2, :2])
    expected = base[3:, 4:].T.copy()
    expected[::2, :2] = base[:2, :2]
    assert device.numpy().tolist() == expected.tolist()


def test_queued_work_that_uses_the_memory_is_waited_for(session: kv.Session, held: Any) -> None:
    host = scatter_arrays(np.random.default_rng(4))
    device = uploaded(session, host)
    session.scatter_pa_kv_cache_with_k_scale(**device)
    fresh = host["key"][::-1]
    failures: list[BaseException] = []

    def fill() -> None:
        try:
            device["key"][1:].copy_from(fresh[1:])
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join(0.1)  # long enough for a copy that did not wait
    is_waiting = thread.is_alive()
    held.aclsim_release_streams()
    thread.join()
    assert (is_waiting, failures) == (True, [])
    expect_scatter(host, device)
    assert device["key"].numpy().tobytes() == host["key"][:1].tobytes() + fresh[1:].tobytes()


def test_memory_that_no_queued_work_uses_is_not_waited_for(session: kv.Session, held: Any) -> None:
    host = scatter_arrays(np.random.default_rng(5))
    device, other = uploaded(session, host), session.array(host["key_scale"])
    session.scatter_pa_kv_cache_with_k_scale(**device)
    other.copy_from(host["key_scale"][::-1])
    assert not session.stream.query()
    held.aclsim_release_streams()
    assert other.numpy().tolist() == host["key_scale"][::-1].tolist()
    expect_scatter(host, device)


def test_launches_of_a_plan_use_what_was_copied(session: kv.Session) -> None:
    host = scatter_arrays(np.random.default_rng(6))
    device = uploaded(session, host)
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:
        for step in range(3):
            host["key"] = np.roll(host["key"], step, 0)
            host["slot_mapping"] = np.array([step, 5 + step, 15 - step], np.int32)
            for name in ("key", "slot_mapping"):
                device[name].copy_from(host[name])
            plan()
            expect_scatter(host, device)
            host.update({name: device[name].numpy() for name in ("key_cache", "value_cache", "key_scale_cache")})


@pytest.mark.provokes("mem:out_of_bounds_write")
def test_a_fault_of_the_queued_work_is_told_and_nothing_is_copied(session: kv.Session) -> None:
    host = scatter_arrays(np.random.default_rng(7))
    device = uploaded(session, host)
    outside = session.borrow_array(64, (4, 2, 4, 16), E4M3)
    session.scatter_pa_kv_cache_with_k_scale(**{**device, "value_cache": outside})
    with pytest.raises(kv.DeviceFaultError):
        device["key"].copy_from(host["value"])
    assert device["key"].numpy().tobytes() == host["key"].tobytes()
    device["key"].copy_from(host["value"])
    assert device["key"].numpy().tobytes() == host["value"].tobytes()


def test_what_is_refused_changes_nothing(session: kv.Session) -> None:
    before = np.arange(12, dtype=np.float32).reshape(3, 4)
    device = session.array(before)
    refused: dict[str, Any] = {
        "shape and dtype of the device array, float32[3, 4], got float32[4, 3]": np.ones((4, 3), np.float32),
        "float32[3, 4], got float32[4]": np.ones(4, np.float32),
        "got float64[3, 4]; array.astype('float32') rounds it": np.ones((3, 4)),
        "got int32[3, 4]": np.ones((3, 4), np.int32),
        "float32 in the other byte order": np.ones((3, 4), ">f4"),
        "host: expected a numpy.ndarray, got list": before.tolist(),
        "host: expected a numpy.ndarray, got float": 1.0,
        "host: expected a numpy.ndarray, got NoneType": None,
        "host: expected a numpy.ndarray, got MaskedArray": np.ma.masked_less(before, 3),
        "host: expected a numpy.ndarray, got DeviceArray": session.array(before),
    }
    for words, host in refused.items():
        with pytest.raises(kv.ArgumentError) as caught:
            device.copy_from(host)
        assert words in str(caught.value)
    fp8 = session.array(np.zeros(3, E4M3))
    with pytest.raises(kv.ArgumentError, match=r"if the bytes are FP8 codes say which: array\.view"):
        fp8.copy_from(np.ones(3, np.uint8))
    twice = session.borrow_array(device.ptr, (2, 4), np.float32, strides=(0, 4), owner=device)
    with pytest.raises(kv.ArgumentError, match="array: expected a view that has each element once, got <DeviceArray"):
        twice.copy_from(np.ones((2, 4), np.float32))
    assert device.numpy().tobytes() == before.tobytes()
    row = device[1]
    device.close()
    with pytest.raises(kv.ClosedError, match="this array is closed"):
        row.copy_from(before[0])


def test_a_closed_session_is_named() -> None:
    with kv.Session(backend="simulator") as session:
        device = session.array(np.zeros(3, np.float32))
    with pytest.raises(kv.ClosedError, match="the session of this array is closed"):
        device.copy_from(np.ones(3, np.float32))
