# SPDX-License-Identifier: Apache-2.0
"""Arrays put in the place of others in a plan: all of them or none, for launches of any thread, and checked against the
values that the plan has by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from plan_calls import E4M3, expect_scatter, fused_arrays, scatter_arrays, uploaded

import aclnn_kvcache as kv
from aclnn_kvcache import oracle

SCATTER_CACHES = ("key_cache", "value_cache", "key_scale_cache")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(6)


@pytest.fixture
def failing(sim: Any) -> Iterator[Callable[[str], None]]:
    """``failing("aclrtMalloc#2=207001")``: native calls that fail from now on; "" for none."""
    yield lambda plan: sim.aclsim_set_faults(plan.encode())
    sim.aclsim_set_faults(None)


def two_batches(rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    starts, lengths = np.array([0, 2, 3], np.int32), np.array([2, 1], np.int32)
    return {**fused_arrays(rng), "query_start_loc": starts, "seq_lens": lengths}


def after(host: dict[str, Any]) -> dict[str, Any]:
    return {**host, **oracle.scatter_pa_kv_cache_with_k_scale(**host)._asdict()}


def test_the_caller_may_change_his_host_arrays(session: kv.Session, rng: np.random.Generator) -> None:
    host = scatter_arrays(rng)
    slots = host["slot_mapping"].copy()
    device: dict[str, Any] = {**uploaded(session, host), "slot_mapping": slots}
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:
        slots[:] = 99
        plan.update(key=device["key"])
        plan()
        expect_scatter(host, device)
        slots[:] = [1, 2, 3]
        host = {**after(host), "slot_mapping": slots.copy()}
        plan.update(slot_mapping=slots)
        slots[:] = -1
        plan.update(key=device["key"])
        plan()
        expect_scatter(host, device)


def test_later_values_in_the_callers_arrays_do_not_hide_what_the_device_has(
    session: kv.Session, rng: np.random.Generator
) -> None:
    host = two_batches(rng)
    device: dict[str, Any] = {**uploaded(session, host), "query_start_loc": host["query_start_loc"]}
    lengths = device["seq_lens"] = host["seq_lens"].copy()
    with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, head_nums=(8, 2, 2)) as plan:
        lengths[:] = 40
        with pytest.raises(kv.AclnnParameterError, match="batch 1 has 1 with 2 tokens"):
            plan.update(query_start_loc=np.array([0, 1, 3], np.int32))


def test_values_are_forgotten_when_a_device_array_takes_their_place(
    session: kv.Session, rng: np.random.Generator
) -> None:
    host = two_batches(rng)
    device = {**uploaded(session, host), "query_start_loc": host["query_start_loc"], "seq_lens": host["seq_lens"]}
    with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, head_nums=(8, 2, 2)) as plan:
        lengths, starts = np.array([7, 6], np.int32), np.array([0, 1, 3], np.int32)
        plan.update(seq_lens=session.array(lengths))
        plan.update(query_start_loc=starts)
        q_out, _ = plan()
        host = {**host, "seq_lens": lengths, "query_start_loc": starts}
        expected = oracle.qkv_rms_norm_rope_cache_with_k_scale(**host, head_nums=(8, 2, 2))
        assert q_out.numpy().tobytes() == expected.q_out.tobytes()
        with pytest.raises(kv.AclnnParameterError, match="batch 1 has 1 with 2 tokens"):
            plan.update(seq_lens=np.array([1, 1], np.int32))  # from the host again


@pytest.mark.parametrize("failed", [1, 2])
def test_an_update_for_which_memory_is_short_changes_nothing(
    session: kv.Session, failing: Callable[[str], None], rng: np.random.Generator, failed: int
) -> None:
    host = two_batches(rng)
    on_host = {name: host[name] for name in ("slot_mapping", "seq_lens")}
    device = {**uploaded(session, host), **on_host}
    other = host["qkv"][::-1]
    with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, head_nums=(8, 2, 2)) as plan:
        fresh = {"qkv": session.array(other), "q_out": session.empty((8, 3, 128), E4M3)}
        failing(f"aclrtMalloc#{failed}=207001")
        with pytest.raises(kv.OutOfDeviceMemory):
            plan.update(**fresh, slot_mapping=np.array([12, 13, 14], np.int32), seq_lens=np.array([6, 6], np.int32))
        failing("")
        q_out, _ = plan()
        assert q_out is not fresh["q_out"]
        expected = oracle.qkv_rms_norm_rope_cache_with_k_scale(**host, head_nums=(8, 2, 2))
        assert q_out.numpy().tobytes() == expected.q_out.tobytes()
        assert device["k_cache"].numpy().tobytes() == expected.k_cache.tobytes()
        with pytest.raises(kv.ArgumentError, match="host array"):  # its batches are on the device
            plan.update(query_start_loc=np.array([0, 1, 3], np.int32))


@pytest.mark.parametrize(("api", "mode"), [("aclSetRawTensorAddr", "two-phase"), ("aclSetTensorAddr", "repeatable")])
@pytest.mark.parametrize("failed", [1, 2])
def test_a_launch_whose_addresses_cannot_be_set_launches_nothing(
    session: kv.Session, failing: Callable[[str], None], rng: np.random.Generator, api: str, mode: str, failed: int
) -> None:
    host, other = scatter_arrays(rng), scatter_arrays(rng)
    device = uploaded(session, host)
    if mode == "repeatable":
        device["key_cache"] = session.array(np.concatenate([host["key_cache"]] * 2, axis=-1))[..., :16]
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:
        assert plan.mode == mode
        plan()
        host = after(host)
        expect_scatter(host, device)
        plan.update(**{name: session.array(other[name]) for name in ("key", "slot_mapping")})
        failing(f"{api}#{failed}=561000")
        with pytest.raises(kv.AclnnInnerError, match=api):
            plan()
        failing("")
        assert all(device[name].numpy().tobytes() == host[name].tobytes() for name in SCATTER_CACHES)
        plan()
        expect_scatter({**host, **{name: other[name] for name in ("key", "slot_mapping")}}, device)


def test_a_launch_of_another_thread_sees_all_of_an_update_or_nothing(
    session: kv.Session, failing: Callable[[str], None]
) -> None:
    """Key and slots go together: the rows of block i hold i, or were never written."""
    keys = [session.array(np.full((4, 1, 16), i, np.uint8).view(E4M3)) for i in range(8)]
    slots = [np.arange(4 * i, 4 * i + 4, dtype=np.int32) for i in range(8)]
    caches = [session.array(np.zeros((8, 1, 4, 16), E4M3)) for _ in range(2)]
    scales = session.array(np.ones((4, 1), np.float32)), session.array(np.zeros((8, 1, 4, 1), np.float32))
    with session.prepare_scatter_pa_kv_cache_with_k_scale(keys[0], keys[0], *caches, slots[0], *scales) as plan:
        is_over = threading.Event()

        def launches() -> None:
            while not is_over.is_set():
                plan()

        thread = threading.Thread(target=launches)
        thread.start()
        failing("aclrtMemcpy#*:delay=2ms")  # time for launches in the midst of an update
        try:
            for turn in range(24):
                plan.update(key=keys[turn % 8], slot_mapping=slots[turn % 8], value=keys[turn % 8])
        finally:
            is_over.set()
            thread.join()
            failing("")
        session.stream.synchronize()
    for cache in caches:
        blocks = cache.numpy().view(np.uint8)
        assert [set(np.unique(block)) - {0, i} for i, block in enumerate(blocks)] == [set()] * 8
        assert blocks[1:].any()


def test_what_is_recorded_of_a_launch_is_what_it_launches(session: kv.Session, rng: np.random.Generator) -> None:
    host = scatter_arrays(rng)
    device = uploaded(session, host)
    fresh = session.array(host["key"][::-1])
    seen: dict[str, kv.DeviceArray] = {}
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:
        thread = threading.Thread(target=lambda: plan.update(key=fresh))

        def record(*call: Any) -> object:
            seen.update(call[3])
            thread.start()
            thread.join(0.1)  # long enough for an update that did not wait
            return call[-1]()

        plan.record_by(record)
        plan()
        assert seen["key"] is device["key"]
        expect_scatter(host, device)
        thread.join()


def test_memory_of_a_closed_array_may_be_anothers(session: kv.Session, rng: np.random.Generator) -> None:
    host = scatter_arrays(rng)
    device = uploaded(session, host)
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:
        there = device["value_cache"].ptr
        device["value_cache"].close()
        plan.update(key_cache=session.borrow_array(there, (4, 2, 4, 16), E4M3))
        with pytest.raises(kv.ClosedError, match=r"^value_cache of this plan was closed"):
            plan()
        device["value_cache"] = session.array(host["value_cache"])
        plan.update(key_cache=device["key_cache"], value_cache=device["value_cache"])
        plan()
        expect_scatter(host, device)
