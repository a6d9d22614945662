# SPDX-License-Identifier: Apache-2.0
"""Prepared and repeated calls on each scene: results, host arrays whose values are checked, what is remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scene_calls as scenes
from scene_calls import CACHES, REVISION, SCENES

import aclnn_kvcache as kv

EACH = pytest.mark.parametrize("scene", SCENES[REVISION])
POSITIONED = pytest.mark.parametrize("scene", [scene for scene in SCENES[REVISION] if scene != "RoPE"])
ON_HOST = ("slot_mapping", "query_start_loc", "seq_lens", "mrope_position")


def call_of(scene: str) -> dict[str, Any]:
    """Ten tokens, so that there is something to change; TND where the scene has a choice."""
    rng = np.random.default_rng(3)
    call = scenes.simple(scene, rng.standard_normal((10, 20, 128)), tokens=10, k_heads=2, blocks=4)
    call["cos_sin"] = rng.uniform(-1, 1, (16, 128)).astype(np.float32)
    if call["mrope_position"] is not None:
        call["mrope_position"] = rng.integers(0, 16, (10, 3), np.int32)
    return {**call, "epsilon": 1e-6}


def now(device: dict[str, Any], made: Any) -> dict[str, Any]:
    """Results of the device arrays as they are."""
    arrays = {**{name: device[name] for name in CACHES}, **dict(zip(scenes.OUTPUTS, made, strict=True))}
    return {name: array.numpy() for name, array in arrays.items() if array is not None}


@EACH
def test_launches_and_arrays_put_in_the_place_of_others(session: kv.Session, scene: str) -> None:
    call = call_of(scene)
    device = scenes.uploaded(session, call, *ON_HOST)
    with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device) as plan:
        assert plan.mode == "repeatable"
        made = plan()
        assert (made[1] is None) == (scene == "M-RoPE")
        assert scenes.same(now(device, made), scenes.by_oracle(call))
        fresh = {"qkv": call["qkv"][::-1], "slot_mapping": call["slot_mapping"][::-1] + 5}
        if scene != "RoPE":
            fresh["mrope_position"] = call["mrope_position"][::-1] // 2
        plan.update(**{**fresh, "qkv": session.array(fresh["qkv"])})
        again = plan()
        assert all(one is other for one, other in zip(made, again, strict=True))
        after = {name: array for name, array in scenes.by_oracle(call).items() if name in CACHES}
        assert scenes.same(now(device, made), scenes.by_oracle({**call, **after, **fresh}))
        outside = [("slot_mapping", np.arange(7, 17, dtype=np.int32), "slot 16 "), ("slot_mapping", None, "both hold")]
        if scene != "RoPE":
            outside.append(("mrope_position", np.full((10, 3), 16, np.int32), "cos_sin has rows 0..15"))
            outside.append(("mrope_position", np.full((10, 3), -1, np.int32), "axis T, is -1"))
        before = now(device, made)
        for name, values, words in outside:
            with pytest.raises(kv.AclnnParameterError, match=words) as caught:
                plan.update(**{name: np.zeros(10, np.int32) if values is None else values})
            assert f"revision {REVISION} of the operator is in force" in str(caught.value)
        with pytest.raises(kv.ArgumentError, match="names among qkv"):
            plan.update(**{"rotation" if scene == "Mx" else "tokens": device["qkv"]})
        plan()
        assert scenes.same(now(device, made), before)


@EACH
def test_a_call_that_ran_before_is_prepared_in_two_phases(session: kv.Session, scene: str) -> None:
    call = call_of(scene)
    device = scenes.uploaded(session, call)
    made = session.qkv_rms_norm_rope_cache_with_k_scale(**device)
    given = {name: array for name, array in zip(scenes.OUTPUTS, made, strict=True) if array is not None}
    session.qkv_rms_norm_rope_cache_with_k_scale(**device, **given)
    with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**device, **given) as plan:
        assert (plan.mode, "identical call" in plan.reason) == ("two-phase", True)
        plan.update(qkv=session.array(call["qkv"][::-1]))
        assert scenes.same(now(device, plan()), scenes.by_oracle({**call, "qkv": call["qkv"][::-1]}))


@POSITIONED
def test_what_was_checked_is_remembered_with_all_that_it_depends_on(session: kv.Session, scene: str) -> None:
    """After a good call on the same arrays each of these is as wrong, or as right, as it ever was."""
    call = call_of(scene)
    device = scenes.uploaded(session, call)
    for _ in range(2):
        made = session.qkv_rms_norm_rope_cache_with_k_scale(**device)
    assert scenes.same(now(device, made), scenes.by_oracle(call))
    batches = session.array(np.array([0, 10], np.int32))
    wrong: list[dict[str, Any]] = [
        {"mrope_section": (0, 22, 0)},
        {"mrope_section": None},
        {"mrope_position": None},
        {"mrope_position": None, "mrope_section": None},
        {"q_quant_mode": None},
        {"q_quant_mode": "PerTokenPerHead"},
        {"layout_q_out": "NTD"},
        {"rotation": None if scene == "M-RoPE" else session.array(np.eye(128).astype(scenes.BF16))},
        {"k_quant_mode": "Mx" if scene == "M-RoPE" else None},
        {"query_start_loc": batches},
        {"k_scale_cache": session.empty((4, 2, 4, 2), device["k_scale_cache"].dtype)},
    ]
    for change in wrong:
        # Revision B does not look at batches, and asks for none.
        if REVISION == "B" and "query_start_loc" in change:
            continue
        with pytest.raises(kv.AclnnParameterError):
            session.qkv_rms_norm_rope_cache_with_k_scale(**{**device, **change})
    other = {"mrope_section": (0, 3, 21)}
    made = session.qkv_rms_norm_rope_cache_with_k_scale(**{**device, **other})
    assert scenes.same(now(device, made), scenes.by_oracle({**call, **other}))


@POSITIONED
def test_arguments_of_the_wrong_kind(session: kv.Session, scene: str) -> None:
    call = call_of(scene)
    for change, words in (
        ({"mrope_section": 20}, "mrope_section: expected a sequence of three integers"),
        ({"mrope_section": [1.0, 2, 3]}, "mrope_section: expected a sequence of three integers"),
        ({"q_quant_mode": 1}, "q_quant_mode: expected a string"),
        ({"mrope_position": [[0, 0, 0]] * 10}, "mrope_position: expected a numpy.ndarray or a DeviceArray, got list"),
        ({"mrope_position": session.array(call["mrope_position"])}, "all arrays on the host or all on the device"),
    ):
        with pytest.raises(kv.ArgumentError) as caught:
            session.qkv_rms_norm_rope_cache_with_k_scale(**{**call, **change})
        assert words in str(caught.value)


@POSITIONED
def test_values_on_the_host_are_checked(session: kv.Session, scene: str) -> None:
    call = call_of(scene)
    before = {name: array.tobytes() for name, array in scenes.arrays(call).items()}
    for change, words in (
        ({"mrope_position": np.full((10, 3), 16, np.int32)}, "mrope_position of token 0, axis T, is 16, but cos_sin"),
        ({"slot_mapping": np.zeros(10, np.int32)}, "slot_mapping rows 0 and 1 both hold slot 0"),
        ({"slot_mapping": np.arange(-1, 9, dtype=np.int32)}, "slot_mapping row 0 holds slot -1"),
    ):
        with pytest.raises(kv.AclnnParameterError) as caught:
            session.qkv_rms_norm_rope_cache_with_k_scale(**{**call, **change})
        assert words in str(caught.value)
        device = scenes.uploaded(session, call, *ON_HOST)
        with pytest.raises(kv.AclnnParameterError):
            session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**{**device, **change})
    assert before == {name: array.tobytes() for name, array in scenes.arrays(call).items()}


@pytest.mark.parametrize("given", [False, True])
@EACH
def test_outputs(session: kv.Session, scene: str, given: bool) -> None:
    """Made or given, on the host or on the device: q_scale is None where the scene has none."""
    call = call_of(scene)
    expected = scenes.by_oracle(call)
    outputs = {name: np.empty_like(expected[name]) for name in scenes.OUTPUTS if name in expected} if given else {}
    made = session.qkv_rms_norm_rope_cache_with_k_scale(**call, **outputs)
    for name, array in zip(scenes.OUTPUTS, made, strict=True):
        assert name in expected or array is None
        if array is not None:
            assert (array.dtype, array.tobytes()) == (expected[name].dtype, expected[name].tobytes())
            assert not given or array is outputs[name]
