# SPDX-License-Identifier: Apache-2.0
"""What a revision has not is refused before the launch, with the name of the one that has it, and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scene_calls as scenes
from scene_calls import BF16, E4M3, REVISION

import aclnn_kvcache as kv


def heads(*counts: int) -> dict[str, Any]:
    q, k, v = counts
    call = scenes.simple("RoPE", k_heads=k)
    return {**call, "qkv": np.ones((3, q + k + v, 128), BF16), "head_nums": counts}


def token_major() -> dict[str, Any]:
    call = scenes.simple("RoPE", k_heads=2)
    return {**call, **{name: np.zeros((2, 4, 2, 128), E4M3).swapaxes(1, 2) for name in ("k_cache", "v_cache")}}


def without(name: str, since: str) -> str:
    return f"{name} must be None with revision {REVISION} of the operator: it came with revision {since}; got "


API = "aclnnQkvRmsNormRopeCacheWithKScale"
FIRST = f"{API}: mrope_position, q_quant_mode and k_quant_mode must make one of the scenes RoPE, M-RoPE and Mx "
MROPE, MX = scenes.simple("M-RoPE"), scenes.simple("Mx")
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "A": [
        (MROPE, without("mrope_position", "B") + "[3, 3]"),
        (MX, without("mrope_position", "B") + "[3, 3]; all of Mx needs revision C, stated where it is installed by "),
        ({**scenes.simple("RoPE"), "k_quant_mode": "Mx"}, without("k_quant_mode", "C") + "'Mx'"),
    ],
    "B": [
        (MX, without("k_quant_mode", "C") + "'Mx'"),
        ({**MX, "k_quant_mode": None}, "Mx came with revision C of the operator"),
        (heads(32, 8, 8), "got [32, 8, 8]; revision A of the operator takes other counts too"),
    ],
    "C": [
        (heads(32, 8, 8), "got [32, 8, 8]; revision A of the operator takes other counts too"),
        (token_major(), "revisions A and B of the operator take token-major caches, C does not"),
        # First of all what the caller did, though q_scale, which he leaves out, is missing too.
        (
            {**MROPE, "q_quant_mode": None},
            FIRST + "with the other arguments; for M-RoPE q_quant_mode must be 'NoQuant'",
        ),
        ({**MX, "q_quant_mode": None}, FIRST + "with the other arguments; for Mx q_quant_mode must be 'Mx'"),
        ({**MROPE, "k_cache": MX["k_cache"]}, f"{API}: k_cache must be int8, got float8_e4m3fn (in M-RoPE, where "),
    ],
}
TAKEN = {"A": (heads(32, 8, 8), token_major()), "B": (MROPE, token_major()), "C": (MROPE, MX)}
"""What others refuse."""


def on_device(session: kv.Session, call: dict[str, Any]) -> dict[str, Any]:
    """Views stay views."""
    device = scenes.uploaded(session, call)
    for name in ("k_cache", "v_cache"):
        if not call[name].flags.c_contiguous:
            device[name] = session.array(call[name].swapaxes(1, 2)).transpose(0, 2, 1, 3)
    return device


@pytest.mark.parametrize(("call", "words"), REFUSED[REVISION], ids=range(len(REFUSED[REVISION])))
@pytest.mark.parametrize("prepared", [False, True])
def test_refused_on_the_device(session: kv.Session, call: dict[str, Any], words: str, prepared: bool) -> None:
    device = on_device(session, call)
    launch = session.qkv_rms_norm_rope_cache_with_k_scale
    if prepared:
        launch = session.prepare_qkv_rms_norm_rope_cache_with_k_scale  # type: ignore[assignment]
        device["mrope_position"] = call["mrope_position"]
    with pytest.raises(kv.AclnnParameterError) as caught:
        launch(**device)
    assert words in str(caught.value)
    assert f"revision {REVISION} of the operator is in force, by " in str(caught.value)
    assert "Nothing was launched and nothing was changed" in str(caught.value)
    session.stream.synchronize()
    for name in scenes.CACHES:
        assert device[name].numpy().tobytes() == call[name].tobytes()


# Of host arrays the session makes dense copies.
ON_HOST = [(call, words) for call, words in REFUSED[REVISION] if call["k_cache"].flags.c_contiguous]


@pytest.mark.parametrize(("call", "words"), ON_HOST, ids=range(len(ON_HOST)))
def test_refused_on_the_host(session: kv.Session, call: dict[str, Any], words: str) -> None:
    before = {name: array.tobytes() for name, array in scenes.arrays(call).items()}
    with pytest.raises(kv.AclnnParameterError) as caught:
        session.qkv_rms_norm_rope_cache_with_k_scale(**call)
    assert words in str(caught.value)
    assert before == {name: array.tobytes() for name, array in scenes.arrays(call).items()}
    findings = kv.check_call(scenes.OPERATOR, qkv_abi=REVISION, **call)
    assert findings == list(caught.value.findings)


@pytest.mark.parametrize("call", TAKEN[REVISION], ids=("one", "other"))
def test_taken_where_it_is_there(session: kv.Session, call: dict[str, Any]) -> None:
    device = on_device(session, call)
    session.qkv_rms_norm_rope_cache_with_k_scale(**device)
    expected = scenes.by_oracle(call)
    for name in scenes.CACHES:
        assert device[name].numpy().tobytes() == expected[name].tobytes()


def test_which_revision_is_in_force(session: kv.Session) -> None:
    assert session.qkv_abi == REVISION
    folder = {"A": "lib", "B": "rev_b", "C": "rev_c"}[REVISION]
    assert session.libraries[0].endswith(f"{folder}/libascendcl.so")
    other = {"A": "B", "B": "C", "C": "A"}[REVISION]
    with pytest.raises(kv.ArgumentError, match=f"expected '{REVISION}', as stated before in this process"):
        kv.Session(backend="simulator", qkv_abi=other)
