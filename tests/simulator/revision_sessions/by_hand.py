# SPDX-License-Identifier: Apache-2.0
"""M-RoPE and Mx through a session, worked out by hand; host and device arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scene_calls as scenes
from scene_calls import BF16, F32, REVISION, SCENES, D

import aclnn_kvcache as kv

POSITIONED = [scene for scene in SCENES[REVISION] if scene != "RoPE"]
BOTH = pytest.mark.parametrize("on_device", [False, True], ids=["host", "device"])
needs_mx = pytest.mark.skipif("Mx" not in SCENES[REVISION], reason="revision C brought it")


@BOTH
@pytest.mark.parametrize("scene", POSITIONED)
def test_how_many_lanes_the_time_axis_has_does_not_matter(session: kv.Session, scene: str, on_device: bool) -> None:
    call = scenes.random_call(scene, np.random.default_rng(8))
    one, other = (
        scenes.run(session, {**call, "mrope_section": section}, on_device=on_device)
        for section in ([11, 20, 20], [24, 20, 20])
    )
    assert scenes.same(one, other)
    assert len(np.unique(one["q_out"].astype(np.float32))) > 50
    fewer = scenes.run(session, {**call, "mrope_section": (24, 19, 20)}, on_device=on_device)
    assert not scenes.same(one, fewer)


@BOTH
def test_three_rows_of_the_table(session: kv.Session, on_device: bool) -> None:
    """Row p of the table has cosines p; with ones in all rows Q is the cosine of each lane."""
    call = scenes.simple("M-RoPE", tokens=2)
    call["cos_sin"] = np.concatenate([np.arange(16)[:, None].repeat(64, 1), np.zeros((16, 64))], axis=1).astype(F32)
    call["mrope_position"] = np.array([[3, 5, 7], [15, 0, 9]], np.int32)
    call["mrope_section"] = (60, 1, 3)
    q_out = scenes.run(session, call, on_device=on_device)["q_out"].astype(np.float32)
    for token, (t, h, w) in enumerate([(3, 5, 7), (15, 0, 9)]):
        lanes = [t, h, w, t, t, w, t, t, w, *[t] * 55]
        assert q_out[token].tolist() == [lanes * 2] * 8


@BOTH
def test_int8_keys_are_rounded_twice(session: kv.Session, on_device: bool) -> None:
    """With 127 in the row the scale is 1. 65.5 - 2**-6 and 64.5 + 2**-6 become 65.5 and 64.5 in FP16, and those go to
    even; rounded at once both are 65."""
    step, rotation = 2.0**-6, np.zeros((D, D), np.float32)
    rotation[:2, 0], rotation[:2, 1], rotation[0, 2] = (65.5, -step), (64.5, step), 127
    call = scenes.simple("M-RoPE", tokens=1)
    call["rotation"] = rotation.astype(BF16)
    results = scenes.run(session, call, on_device=on_device)
    assert np.rint(np.float32([65.5 - step, 64.5 + step])).tolist() == [65, 65]
    assert results["k_cache"][0, 0, 0, :4].tolist() == [66, 64, 127, 0]
    assert results["k_scale_cache"][0, 0, 0, 0] == 1
    assert results["q_out"].dtype == BF16
    assert "q_scale" not in results


ABOVE = np.nextafter(np.float32(448), np.float32(449))
BLOCKS = {
    "a power of two": ([448.0, 1.0], 127, [0x7E, 0x38]),
    "another": ([896.0, 1.0], 128, [0x7E, 0x30]),
    "a step above": ([ABOVE, 1.0], 128, [0x76, 0x30]),
    "a step below": ([np.nextafter(np.float32(448), np.float32(0)), 1.0], 127, [0x7E, 0x38]),
    "zero": ([0.0, 0.0], 0, [0, 0]),
}
"""Numbers of a block; its exponent byte, and their codes."""


@needs_mx
@BOTH
@pytest.mark.parametrize("kind", BLOCKS)
def test_mx_blocks(session: kv.Session, kind: str, on_device: bool) -> None:
    """A row of ones comes out as its gammas. The other blocks hold 448."""
    numbers, byte, codes = BLOCKS[kind]
    call = scenes.simple("Mx", tokens=1)
    gammas = np.full(D, 448, np.float32)
    gammas[32:64] = np.resize(np.float32(numbers), 32)
    call["q_gamma"] = call["k_gamma"] = gammas
    results = scenes.run(session, call, on_device=on_device)
    assert raw(results["k_scale_cache"])[0, 0, 0].tolist() == [127, byte, 127, 127]
    assert raw(results["k_cache"])[0, 0, 0, 32:34].tolist() == codes
    assert (raw(results["k_cache"])[0, 0, 0, 64:] == 0x7E).all()
    assert (raw(results["q_scale"])[0] == raw(results["k_scale_cache"])[0, 0, 0]).all()
    assert (raw(results["q_out"])[0] == raw(results["k_cache"])[0, 0, 0]).all()


@needs_mx
@BOTH
def test_an_infinity_makes_zeros_of_its_block_alone(session: kv.Session, on_device: bool) -> None:
    """A cosine of 2 makes Inf of the last channel and 448 of its partner, channel 63."""
    call = scenes.simple("Mx", tokens=1)
    gammas = np.full(D, 448, np.float32)
    gammas[127], gammas[63] = 3e38, 224
    call["q_gamma"] = call["k_gamma"] = gammas
    call["cos_sin"][:, 63] = 2
    results = scenes.run(session, call, on_device=on_device)
    assert raw(results["q_scale"])[0, 0].tolist() == raw(results["k_scale_cache"])[0, 0, 0].tolist()
    assert raw(results["q_scale"])[0, 0].tolist() == [127, 127, 127, 0xFF]
    assert (raw(results["q_out"])[0, :, :96] == 0x7E).all()
    assert not raw(results["q_out"])[0, :, 96:].any()
    assert scenes.same(results, scenes.by_oracle(call))


def raw(array: Any) -> Any:
    return array.view(np.uint8)
