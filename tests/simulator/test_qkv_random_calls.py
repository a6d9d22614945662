# SPDX-License-Identifier: Apache-2.0
"""500 random calls of the fused operator: simulator and oracle, written independently, agree.

Of the FP8 codes at least 99.99 % are equal and the rest one step apart; scales are within 1e-6 relative
(device_arithmetic: what the open points of the rounding can change).
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv

CALLS, CHUNKS = 500, 10
HEADS = ((8, 1, 1), (16, 2, 2), (64, 8, 8), (120, 8, 8), (4, 4, 4), (1, 79, 79), (3, 1, 1), (128 - 5, 5, 5), (1, 1, 1))
LAYOUTS = (("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD"))
CACHES = ("k_cache", "v_cache", "k_scale_cache")
D = 128
BF16, E4M3 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)

Array = np.ndarray[Any, Any]


def random_call(rng: np.random.Generator) -> tuple[dict[str, Array], dict[str, Any]]:
    heads = HEADS[rng.integers(len(HEADS))]
    layout_qkv, layout_q_out = LAYOUTS[rng.integers(len(LAYOUTS))]
    lengths = rng.integers(0, 9, rng.integers(1, 5))
    lengths[0] = max(lengths[0], 1)
    history = rng.integers(0, 30, lengths.size)
    tokens, size = int(lengths.sum()), int(rng.integers(1, 17))
    blocks = -(-tokens // size) + int(rng.integers(0, 4))
    qkv = (rng.standard_normal((tokens, sum(heads), D)) * 10.0 ** rng.uniform(-3, 3)).astype(BF16)
    angles = rng.uniform(-np.pi, np.pi, (int((lengths + history).max()), D // 2))

    def cache(width: int, dtype: np.dtype[Any]) -> Array:
        padding = [int(rng.integers(0, 3)) for _ in range(3)]
        shape = [extent + pad for extent, pad in zip((blocks, heads[1], size), padding, strict=True)]
        raw = rng.integers(0, 256, (*shape, width * dtype.itemsize), np.uint8).view(dtype)
        return raw[:blocks, : heads[1], :size]

    kv_rows = cache(2 * D, E4M3)
    arguments = {
        "qkv": qkv if layout_qkv == "TND" else np.ascontiguousarray(qkv.transpose(1, 0, 2)),
        "q_gamma": rng.normal(1, 0.3, D).astype(np.float32),
        "k_gamma": rng.normal(1, 0.3, D).astype(np.float32),
        "cos_sin": np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32),
        "slot_mapping": rng.permutation(blocks * size)[:tokens].astype(np.int32),
        "k_cache": kv_rows[..., :D],
        "v_cache": kv_rows[..., D:],
        "k_scale_cache": cache(1, np.dtype(np.float32)),
        "query_start_loc": np.cumsum([0, *lengths]).astype(np.int32),
        "seq_lens": (lengths + history).astype(np.int32),
        "rotation": (rng.standard_normal((D, D)) / np.sqrt(D)).astype(BF16),
        "v_scale": rng.uniform(0.01, 300, heads[2]).astype(np.float32),
    }
    options = {"head_nums": heads, "layout_qkv": layout_qkv, "layout_q_out": layout_q_out}
    return arguments, {**options, "epsilon": float(rng.choice([1e-6, 1e-5, 0.0]))}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_simulator_and_oracle_agree(session: kv.Session, chunk: int) -> None:
    codes = unequal = 0
    for number in range(CALLS // CHUNKS):
        seed = [chunk, number]
        arguments, options = random_call(np.random.default_rng(seed))
        before = {name: arguments[name].copy() for name in CACHES}
        expected = kv.oracle.qkv_rms_norm_rope_cache_with_k_scale(**arguments, **options)
        if number % 2:
            q_out, q_scale = session.qkv_rms_norm_rope_cache_with_k_scale(**arguments, **options)
        else:
            device = {name: session.array(array) for name, array in arguments.items()}
            q_out, q_scale = (a.numpy() for a in session.qkv_rms_norm_rope_cache_with_k_scale(**device, **options))
            arguments |= {name: device[name].numpy() for name in CACHES}
        exact = {"v_cache": (arguments["v_cache"], expected.v_cache, before["v_cache"])}
        fp8 = {
            "q_out": (q_out, expected.q_out, None),
            "k_cache": (arguments["k_cache"], expected.k_cache, before["k_cache"]),
        }
        relative = {
            "q_scale": (q_scale, expected.q_scale, None),
            "k_scale_cache": (arguments["k_scale_cache"], expected.k_scale_cache, before["k_scale_cache"]),
        }
        for rule, group in (("exact", exact), ("fp8", fp8), ("relative", relative)):
            for name, (actual, want, was) in group.items():
                result = kv.compare(actual, want, rule, before=was)
                assert result.ok, f"seed {seed}, {name}: {result.summary()}"
        for actual, want, _ in fp8.values():
            codes += actual.size
            unequal += int((actual.view(np.uint8) != want.view(np.uint8)).sum())
    assert unequal <= codes // 10_000
