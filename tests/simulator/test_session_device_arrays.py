# SPDX-License-Identifier: Apache-2.0
"""Scatter on device arrays: no copies, asynchronous, and everything kept alive until the stream has passed it."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


def host_arrays(tokens: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)

    def random(*shape: int) -> np.ndarray[Any, Any]:
        return rng.integers(0, 256, shape, np.uint8).view(E4M3)

    return {
        "key": random(tokens, 2, 16),
        "value": random(tokens, 2, 16),
        "key_cache": random(4, 2, 4, 16),
        "value_cache": random(4, 2, 4, 16),
        "slot_mapping": rng.permutation(16)[:tokens].astype(np.int32),
        "key_scale": rng.random((tokens, 2), np.float32),
        "key_scale_cache": rng.random((4, 2, 4, 1), np.float32),
    }


def uploaded(session: kv.Session, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, kv.DeviceArray]:
    return {name: session.array(array) for name, array in arrays.items()}


def expect(arrays: dict[str, np.ndarray[Any, Any]], actual: dict[str, kv.DeviceArray]) -> None:
    expected = kv.oracle.scatter_pa_kv_cache_with_k_scale(**arrays)
    for name in ("key_cache", "value_cache", "key_scale_cache"):
        result = kv.compare(actual[name].numpy(), getattr(expected, name), before=arrays[name])
        assert result.ok, f"{name}: {result.summary()}"


def test_caches_change_in_place(session: kv.Session) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    pointers = {name: array.ptr for name, array in device.items()}
    session.scatter_pa_kv_cache_with_k_scale(**device)
    expect(arrays, device)
    assert {name: array.ptr for name, array in device.items()} == pointers


def test_calls_on_the_same_memory_see_what_lies_there_now(session: kv.Session, sim: Any) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    session.scatter_pa_kv_cache_with_k_scale(**device)
    tensors = sim.counter("ACLSIM_LIVE_TENSORS")
    for _ in range(3):
        arrays = {name: array.numpy() for name, array in device.items()}
        arrays["slot_mapping"] = (arrays["slot_mapping"] + 1) % 16
        arrays["key"] = arrays["key"][::-1].copy()
        for name in ("slot_mapping", "key"):
            given = arrays[name]
            with session.bound():
                assert sim.aclrtMemcpy(device[name].ptr, given.nbytes, given.ctypes.data, given.nbytes, 1) == 0
        session.scatter_pa_kv_cache_with_k_scale(**device)
        expect(arrays, device)  # waits
    assert sim.counter("ACLSIM_LIVE_TENSORS") == tensors  # those of the first call


def test_another_view_of_the_same_memory_is_another_call(session: kv.Session) -> None:
    arrays = host_arrays(4)
    device = uploaded(session, arrays)
    for step in (1, 2, 1):
        shorter = {**device, **{name: device[name][::step] for name in ("key", "value", "slot_mapping", "key_scale")}}
        arrays = {name: array.numpy() for name, array in shorter.items()}
        session.scatter_pa_kv_cache_with_k_scale(**shorter)
        expect(arrays, shorter)


def test_threads_on_one_stream_do_not_lose_each_others_descriptors(
    session: kv.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclnn_kvcache.runtime.descriptor.KEPT", 3)  # dropped by every other call
    given = [host_arrays() for _ in range(3)]
    device = [uploaded(session, arrays) for arrays in given]

    def calls(arrays: dict[str, kv.DeviceArray]) -> None:
        for _ in range(20):
            session.scatter_pa_kv_cache_with_k_scale(**arrays)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(calls, device))
    for arrays, actual in zip(given, device, strict=True):
        expect(arrays, actual)


def test_the_call_returns_before_the_work_runs(session: kv.Session, held: Any) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    session.scatter_pa_kv_cache_with_k_scale(**device)
    assert not session.stream.query()
    held.aclsim_release_streams()
    session.stream.synchronize()
    assert session.stream.query()
    expect(arrays, device)


def test_dropped_arrays_live_until_the_stream_has_passed_the_call(session: kv.Session, held: Any) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    bytes_before = held.counter("ACLSIM_LIVE_DEVICE_BYTES")
    session.scatter_pa_kv_cache_with_k_scale(**device)
    caches = {name: device[name] for name in ("key_cache", "value_cache", "key_scale_cache")}
    del device
    gc.collect()
    assert held.counter("ACLSIM_LIVE_DEVICE_BYTES") >= bytes_before
    assert held.counter("ACLSIM_LIVE_TENSORS") == 7
    held.aclsim_release_streams()
    session.stream.synchronize()
    gc.collect()
    assert held.counter("ACLSIM_LIVE_TENSORS") == 7  # the stream keeps descriptors for its next call, and no memory
    assert held.counter("ACLSIM_LIVE_DEVICE_ALLOCATIONS") == 3 + 1  # the caches, and the stream's workspace
    expect(arrays, caches)


def test_closing_an_array_in_use_waits_for_the_work(session: kv.Session) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    session.scatter_pa_kv_cache_with_k_scale(**device)
    device["key"].close()
    assert session.stream.query()
    expect(arrays, device)


def test_a_closed_array_is_named(session: kv.Session) -> None:
    device = uploaded(session, host_arrays())
    device["value_cache"].close()
    device["value_cache"].close()
    with pytest.raises(kv.ClosedError, match="value_cache is a device array that was closed"):
        session.scatter_pa_kv_cache_with_k_scale(**device)


def test_many_calls_without_a_synchronise_hold_bounded_memory(session: kv.Session, sim: Any) -> None:
    arrays = host_arrays()
    caches = uploaded(session, {name: arrays[name] for name in ("key_cache", "value_cache", "key_scale_cache")})
    for _ in range(400):
        inputs = {name: session.array(array) for name, array in arrays.items() if name not in caches}
        session.scatter_pa_kv_cache_with_k_scale(**inputs, **caches)
        del inputs
        if sim.counter("ACLSIM_LIVE_TENSORS") > 700:
            session.stream.synchronize()
    assert sim.counter("ACLSIM_LIVE_TENSORS") < 7 * 400
    expect(arrays, caches)


def test_waits_that_time_out_do_not_keep_what_later_events_release(session: kv.Session, sim: Any, held: Any) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    session.scatter_pa_kv_cache_with_k_scale(**device)
    for _ in range(3):
        with pytest.raises(kv.SynchronizeTimeoutError):
            session.stream.synchronize(0.001)
    held.aclsim_release_streams()
    for _ in range(200):
        session.scatter_pa_kv_cache_with_k_scale(**device)
    while not session.stream.query():
        pass
    for _ in range(16):  # one more mark, whose look finds all that was passed
        session.scatter_pa_kv_cache_with_k_scale(**device)
    assert sim.counter("ACLSIM_LIVE_TENSORS") <= 7 * 32
    expect(arrays, device)


def test_views_of_one_allocation(session: kv.Session) -> None:
    """K and V rows interleaved, scales transposed: written where the bases say, gaps untouched."""
    arrays = host_arrays()
    base = np.random.default_rng(8).integers(0, 256, (4, 2, 4, 2, 16), np.uint8).view(E4M3)
    arrays["key_cache"], arrays["value_cache"] = base[..., 0, :], base[..., 1, :]
    device = uploaded(session, {name: a for name, a in arrays.items() if name not in ("key_cache", "value_cache")})
    on_device = session.array(base)
    device["key_cache"], device["value_cache"] = on_device[..., 0, :], on_device[..., 1, :]
    device["key_scale"] = session.array(arrays["key_scale"].T).transpose()
    assert device["key_scale"].strides == (4, 12)
    session.scatter_pa_kv_cache_with_k_scale(**device)
    expect(arrays, device)


def test_whole_cache_copies_are_refused(session: kv.Session) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    wide = session.array(np.zeros((4, 2, 4, 32), E4M3))
    device["key_cache"] = wide[..., ::2]
    with pytest.raises(kv.AclnnParameterError, match="key_cache would be copied whole"):
        session.scatter_pa_kv_cache_with_k_scale(**device)


def test_check_call_sees_device_arrays_as_the_operator_does(session: kv.Session) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    check = kv.check_call
    operator = "scatter_pa_kv_cache_with_k_scale"
    assert check(operator, **device) == []
    assert check(operator, **{**device, "slot_mapping": arrays["slot_mapping"]}) == []
    both = session.array(np.zeros((5, 2, 4, 16), E4M3))
    findings = check(operator, **{**device, "key_cache": both[:4], "value_cache": both[1:]})
    assert [finding.rule for finding in findings] == ["overlap.key_cache.value_cache"]
    findings = check(operator, **{**device, "value_cache": device["value_cache"][:3]})
    assert [finding.rule for finding in findings] == ["blocks.value_cache"]
    device["key"].close()
    with pytest.raises(kv.ClosedError, match="key is a device array that was closed"):
        check(operator, **device)


def test_d5_a_stride_of_0_on_a_length_1_axis_keeps_the_view_path(session: kv.Session) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    padded = session.array(np.zeros((4, 2, 4, 64), E4M3))
    arrays["key_cache"] = np.zeros((4, 2, 4, 16), E4M3)
    device["key_cache"] = padded[..., :16]
    scales = session.array(arrays["key_scale_cache"][..., 0])
    device["key_scale_cache"] = scales[..., None]
    session.scatter_pa_kv_cache_with_k_scale(**device)
    expect(arrays, device)


def test_overlapping_device_arrays_are_refused(session: kv.Session) -> None:
    device = uploaded(session, host_arrays())
    both = session.array(np.zeros((5, 2, 4, 16), E4M3))
    device["key_cache"], device["value_cache"] = both[:4], both[1:]
    with pytest.raises(kv.AclnnParameterError, match="key_cache, which is written, shares memory with value_cache"):
        session.scatter_pa_kv_cache_with_k_scale(**device)


def test_arrays_and_streams_of_another_session_are_refused(session: kv.Session) -> None:
    with kv.Session(backend="simulator", device=1) as other:
        device = uploaded(other, host_arrays())
        with pytest.raises(kv.ArgumentError, match="key: expected an array of this session"):
            session.scatter_pa_kv_cache_with_k_scale(**device)
        with pytest.raises(kv.ArgumentError, match="stream: expected a stream of this session"):
            session.scatter_pa_kv_cache_with_k_scale(**uploaded(session, host_arrays()), stream=other.stream)


def test_streams_are_ordered_by_events(session: kv.Session, held: Any) -> None:
    arrays = host_arrays()
    device = uploaded(session, arrays)
    second = session.create_stream()
    event = session.create_event()
    zeros = session.array(np.zeros((3, 2, 16), E4M3))
    session.scatter_pa_kv_cache_with_k_scale(**{**device, "key": zeros})
    event.record(session.stream)
    second.wait(event)
    session.scatter_pa_kv_cache_with_k_scale(**device, stream=second)
    assert not event.query()
    held.aclsim_release_streams()
    second.synchronize()
    assert event.query()
    expect(arrays, device)


def test_borrowed_memory_and_streams_are_not_freed(session: kv.Session, sim: Any) -> None:
    owner = session.array(np.arange(64, dtype=np.float32))
    stream = session.create_stream()
    borrowed = session.borrow_array(owner.ptr, (8, 8), np.float32, owner=owner)
    assert borrowed[2:4, 1].numpy().tolist() == [17, 25]
    lent = session.borrow_stream(stream.handle)
    lent.close()
    borrowed.close()
    stream.synchronize()
    assert owner.numpy()[63] == 63


def test_misaligned_borrowed_memory_is_refused(session: kv.Session) -> None:
    owner = session.array(np.arange(128, dtype=np.uint8))
    address = owner.ptr + 33
    with pytest.raises(kv.ArgumentError) as caught:
        session.borrow_array(address, (3, 8), np.uint8)
    assert str(caught.value).splitlines()[0] == (
        f"pointer: expected the start of an allocation, a multiple of 32 bytes, got {address:#x}; borrow the "
        "allocation from its start and slice the result"
    )
    borrowed = session.borrow_array(owner.ptr, (128,), np.uint8, owner=owner)
    assert borrowed[33:36].numpy().tolist() == [33, 34, 35]
    assert session.borrow_array(owner.ptr + 32, (3,), np.uint8, owner=owner).numpy().tolist() == [32, 33, 34]


@pytest.mark.usefixtures("reports")
def test_a_fault_surfaces_at_the_synchronise(session: kv.Session) -> None:
    """Device slots are not checked on the host; a value cache that is freed under the call is the caller's doing."""
    arrays = host_arrays()
    device = uploaded(session, arrays)
    outside = session.borrow_array(64, (4, 2, 4, 16), E4M3)
    session.scatter_pa_kv_cache_with_k_scale(**{**device, "value_cache": outside})
    with pytest.raises(kv.DeviceFaultError) as caught:
        session.stream.synchronize()
    assert caught.value.status == 507035
    session.stream.synchronize()


def test_out_of_memory_says_how_much_there_is(session: kv.Session) -> None:
    with pytest.raises(MemoryError, match=r"asked for 9663676416 bytes; device 0 has \d+ free of 8589934592"):
        session.empty((9, 1 << 30), np.uint8)


def test_device_arrays_read_back_as_they_were_written(session: kv.Session) -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    array = session.array(host[:, ::-1])
    assert (array.numpy() == host[:, ::-1]).all()
    assert (array[1, :, ::2].numpy() == host[1, ::-1, ::2]).all()
    assert (array[..., None, 0].transpose(2, 0, 1).numpy() == host[:, ::-1, :1].transpose(2, 0, 1)).all()
    assert (array.shape, array.strides, array.nbytes, array.size, array.ndim) == ((2, 3, 4), (48, 16, 4), 96, 24, 3)
    assert session.array(np.zeros((0, 3), np.int8)).numpy().shape == (0, 3)
    assert session.array(np.array(5, np.int64)).numpy() == 5
    with pytest.raises(kv.ArgumentError, match="views cannot be indexed by arrays"):
        array[[0, 1]]
    with pytest.raises(kv.ArgumentError, match="host: expected a dtype that CANN has"):
        session.array(np.zeros(3, "V3"))
