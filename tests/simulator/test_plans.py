# SPDX-License-Identifier: Apache-2.0
"""Prepared calls: results of every launch, arrays put in the place of others, modes, and what is refused."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest
from plan_calls import E4M3, expect_scatter, fused_arrays, scatter_arrays, uploaded

import aclnn_kvcache as kv
from aclnn_kvcache import oracle


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def test_each_launch_moves_what_the_arrays_hold_then(session: kv.Session, rng: np.random.Generator) -> None:
    host = scatter_arrays(rng)
    device = uploaded(session, host)
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:
        assert (plan.mode, "because all tensors are contiguous" in plan.reason) == ("two-phase", True)
        assert plan() is None
        expect_scatter(host, device)
        other = scatter_arrays(rng)
        plan.update(**{name: session.array(other[name]) for name in ("key", "slot_mapping", "key_scale")})
        plan()
        after = oracle.scatter_pa_kv_cache_with_k_scale(**host)._asdict()
        moved = {**host, **after, **{name: other[name] for name in ("key", "slot_mapping", "key_scale")}}
        expect_scatter(moved, device)


def test_slots_on_the_host_are_checked_and_copied(session: kv.Session, rng: np.random.Generator) -> None:
    host = scatter_arrays(rng)
    device: dict[str, Any] = {**uploaded(session, host), "slot_mapping": host["slot_mapping"]}
    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
    plan()
    expect_scatter(host, device)
    before = [device[name].numpy().tobytes() for name in ("key_cache", "value_cache", "key_scale_cache")]
    for slots, words in ([0, 16, 1], "slot 16"), ([5, 5, 1], "rows 0 and 1 both hold slot 5"), ([-1, 0, 1], "slot -1"):
        with pytest.raises(kv.AclnnParameterError, match=words):
            plan.update(slot_mapping=np.array(slots, np.int32))
    plan()
    assert before == [device[name].numpy().tobytes() for name in ("key_cache", "value_cache", "key_scale_cache")]
    fresh = np.array([15, 2, 8], np.int32)
    plan.update(slot_mapping=fresh)
    plan()
    after = oracle.scatter_pa_kv_cache_with_k_scale(**host)._asdict()
    expect_scatter({**host, **after, "slot_mapping": fresh}, device)
    with pytest.raises(kv.AclnnParameterError, match="slot 99"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**{**device, "slot_mapping": np.array([0, 1, 99], np.int32)})
    plan.close()


def test_strided_caches_make_a_repeatable_plan_and_layers_can_be_walked(
    session: kv.Session, sim: Any, rng: np.random.Generator
) -> None:
    host = scatter_arrays(rng)
    layers = {name: np.stack([host[name]] * 3) for name in ("key_cache", "value_cache", "key_scale_cache")}
    padded = np.zeros((3, 4, 2, 4, 32), E4M3)
    padded[..., :16] = layers["key_cache"]
    bases = {**{name: session.array(array) for name, array in layers.items()}, "key_cache": session.array(padded)}
    inputs = {name: session.array(array) for name, array in host.items() if name not in bases}

    def layer(index: int) -> dict[str, kv.DeviceArray]:
        views = {name: base[index] for name, base in bases.items()}
        return {**views, "key_cache": views["key_cache"][..., :16]}

    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**inputs, **layer(0))
    assert plan.mode == "repeatable"
    executors = sim.counter("ACLSIM_LIVE_EXECUTORS")
    plan()
    plan.update(**layer(2))
    plan()
    plan()
    assert sim.counter("ACLSIM_LIVE_EXECUTORS") == executors == 1
    expected = oracle.scatter_pa_kv_cache_with_k_scale(**host)
    assert bases["value_cache"].numpy()[[0, 2]].tobytes() == np.stack([expected.value_cache] * 2).tobytes()
    assert bases["value_cache"].numpy()[1].tobytes() == host["value_cache"].tobytes()
    assert bases["key_cache"].numpy()[2, ..., :16].tobytes() == expected.key_cache.tobytes()
    assert not bases["key_cache"].numpy()[..., 16:].view(np.uint8).any()
    plan.close()
    assert sim.counter("ACLSIM_LIVE_EXECUTORS") == 0


def test_the_fused_operator_is_repeatable_unless_it_was_called_before(
    session: kv.Session, rng: np.random.Generator
) -> None:
    host = fused_arrays(rng)
    expected = oracle.qkv_rms_norm_rope_cache_with_k_scale(**host, head_nums=(8, 2, 2))
    device = uploaded(session, host)
    first = session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, head_nums=(8, 2, 2))
    assert first.mode == "repeatable"
    outputs = first()
    assert all(again is array for again, array in zip(first(), outputs, strict=True))
    assert outputs[0].numpy().tobytes() == expected.q_out.tobytes()
    assert device["k_cache"].numpy().tobytes() == expected.k_cache.tobytes()
    first.close()
    given = {"q_out": outputs[0], "q_scale": outputs[1]}
    session.qkv_rms_norm_rope_cache_with_k_scale(**device, **given, head_nums=(8, 2, 2))
    second = session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, **given, head_nums=(8, 2, 2))
    assert second.mode == "two-phase"
    assert second.reason.startswith(
        "CANN refuses to make the executor repeatable, as it does once an identical call was made on this thread: "
    )
    fresh = session.array(host["qkv"][::-1])
    second.update(qkv=fresh)
    second()
    turned = oracle.qkv_rms_norm_rope_cache_with_k_scale(**{**host, "qkv": host["qkv"][::-1]}, head_nums=(8, 2, 2))
    assert outputs[0].numpy().tobytes() == turned.q_out.tobytes()
    second.close()


def test_one_array_in_two_places_is_replaced_in_one(session: kv.Session, rng: np.random.Generator) -> None:
    host = fused_arrays(rng)
    device = {**uploaded(session, host), "k_gamma": (gamma := session.array(host["q_gamma"])), "q_gamma": gamma}
    plan = session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, head_nums=(8, 2, 2))
    plan.update(k_gamma=session.array(host["k_gamma"]))
    q_out, _ = plan()
    expected = oracle.qkv_rms_norm_rope_cache_with_k_scale(**host, head_nums=(8, 2, 2))
    assert q_out.numpy().tobytes() == expected.q_out.tobytes()
    assert device["k_cache"].numpy().tobytes() == expected.k_cache.tobytes()
    plan.close()


def test_a_plan_keeps_its_arrays_and_work_in_flight_alive(
    session: kv.Session, held: Any, rng: np.random.Generator
) -> None:
    host = scatter_arrays(rng)
    device = uploaded(session, host)
    caches = {name: device[name] for name in ("key_cache", "value_cache", "key_scale_cache")}
    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
    del device
    plan()
    plan.close()
    del plan
    held.aclsim_release_streams()
    session.stream.synchronize()
    expect_scatter(host, caches)


def test_what_a_plan_refuses(session: kv.Session, rng: np.random.Generator) -> None:
    host = scatter_arrays(rng)
    device = uploaded(session, host)
    with pytest.raises(kv.ArgumentError) as caught:
        session.prepare_scatter_pa_kv_cache_with_k_scale(**{**device, "key": host["key"], "value_cache": host["key"]})
    assert str(caught.value) == (
        "arguments: expected device arrays: a plan launches on them again and again; only slot_mapping may be on the "
        "host, got key, value_cache on the host; session.array(...) makes a device copy"
    )
    host["key_cache"].flags.writeable = False
    with pytest.raises(kv.ArgumentError, match="may be on the host, got key, value, key_cache, value_cache"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**host)
    host["key_cache"].flags.writeable = True
    with pytest.raises(kv.AclnnParameterError, match="key_scale is None"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**{**device, "key_scale": None})
    empty = {name: session.array(array) for name, array in scatter_arrays(rng, 0).items()}
    with pytest.raises(kv.ArgumentError, match="at least one token"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**empty)
    with pytest.raises(TypeError, match="key_scale_cache"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(*list(device.values())[:-1])
    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
    refused = {
        "names among key, value": {"query": device["key"]},
        "key: expected an array like the one it replaces": {"key": session.array(host["key"][:2])},
        "key: expected a device array, got a host array": {"key": host["key"]},
        "key: expected a numpy.ndarray or a DeviceArray, got list": {"key": [1]},
        "key: expected a numpy.ndarray or a DeviceArray, got NoneType": {"key": None},
        "slot_mapping: expected a numpy.ndarray or a DeviceArray, got int": {"slot_mapping": 3},
    }
    for words, arrays in refused.items():
        with pytest.raises(kv.ArgumentError, match=words):
            plan.update(**arrays)
    with pytest.raises(kv.AclnnParameterError, match="key_cache, which is written, shares memory with value_cache"):
        plan.update(key_cache=device["value_cache"])
    closed = session.array(host["key"])
    closed.close()
    with pytest.raises(kv.ClosedError, match="key is a device array that was closed"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**{**device, "key": closed})
    with pytest.raises(kv.ClosedError):
        plan.update(key=closed)
    plan()
    expect_scatter(host, device)
    plan.close()
    plan.close()
    with pytest.raises(kv.ClosedError):
        plan()
    with pytest.raises(kv.ClosedError):
        plan.update(key=device["key"])


def test_the_signature_is_that_of_the_call() -> None:
    for name in ("scatter_pa_kv_cache_with_k_scale", "qkv_rms_norm_rope_cache_with_k_scale"):
        call, prepare = getattr(kv.Session, name), getattr(kv.Session, f"prepare_{name}")
        assert signature(prepare) == signature(call).replace(return_annotation="Plan")
        assert prepare.__name__ == f"prepare_{name}"
        assert prepare.__doc__.startswith("A plan of a call")


def test_a_call_with_other_arguments_than_those_of_the_call(session: kv.Session, rng: np.random.Generator) -> None:
    device = uploaded(session, scatter_arrays(rng))
    with pytest.raises(TypeError, match="head_nums"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**device, head_nums=(1, 1, 1))
    with pytest.raises(kv.ArgumentError, match="padding: expected"):
        session.prepare_scatter_pa_kv_cache_with_k_scale(**device, padding="none")
    with session.prepare_scatter_pa_kv_cache_with_k_scale(*device.values(), padding="skip") as plan:
        assert plan.stream is session.stream
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device, stream=(side := session.create_stream())) as plan:
        assert plan.stream is side


def test_a_closed_array_ends_a_plan_with_an_error_and_not_a_fault(
    session: kv.Session, rng: np.random.Generator
) -> None:
    host = scatter_arrays(rng)
    device = uploaded(session, host)
    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
    plan()
    device["value"].close()
    with pytest.raises(kv.ClosedError) as caught:
        plan()
    assert str(caught.value) == "value of this plan was closed; plan.update(...) puts another array in its place"
    device["key_scale"].close()
    with pytest.raises(kv.ClosedError, match=r"^value and key_scale of this plan were closed"):
        plan()
    host["value"] = host["value"][::-1]
    plan.update(value=session.array(host["value"]), key_scale=session.array(host["key_scale"]))
    plan()
    expect_scatter(host, device)
    plan.close()
    with pytest.raises(kv.ClosedError, match=r"^this plan is closed"):
        plan()


@pytest.mark.provokes("mem:out_of_bounds_write")
def test_faults_and_blocking_mode_name_the_launch(rng: np.random.Generator) -> None:
    with kv.Session(backend="simulator", blocking=True) as session:
        device = uploaded(session, scatter_arrays(rng))
        outside = session.borrow_array(64, (4, 2, 4, 16), E4M3)
        plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**{**device, "value_cache": outside})
        with pytest.raises(kv.DeviceFaultError) as caught:
            plan()
        assert caught.value.operator == "aclnnScatterPaKvCacheWithKScale"
        assert [launch.number for launch in caught.value.launches] == [1]
        assert caught.value.arguments[0].name == "key"
        plan.close()


def test_many_launches_leave_nothing_behind(session: kv.Session, sim: Any, rng: np.random.Generator) -> None:
    device = uploaded(session, scatter_arrays(rng))
    plan = session.prepare_scatter_pa_kv_cache_with_k_scale(**device)
    plan()
    session.stream.synchronize()
    before = sim.live()
    for _ in range(2000):
        plan()
    session.stream.synchronize()
    assert sim.live() == before
    plan.close()


def test_a_plan_whose_phase_1_fails_is_closed_with_its_session(sim: Any, rng: np.random.Generator) -> None:
    def prepare() -> None:
        with kv.Session(backend="simulator") as session:
            device = uploaded(session, scatter_arrays(rng))
            sim.aclsim_set_faults(b"aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize#1=561103")
            session.prepare_scatter_pa_kv_cache_with_k_scale(**device)

    try:
        with pytest.raises(kv.AclnnInnerError):
            prepare()
    finally:
        sim.aclsim_set_faults(None)
