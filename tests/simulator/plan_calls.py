# SPDX-License-Identifier: Apache-2.0
"""Small calls of both operators, for plans."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import aclnn_kvcache as kv
from aclnn_kvcache import oracle

E4M3 = ml_dtypes.float8_e4m3fn


def scatter_arrays(rng: np.random.Generator, tokens: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    def fp8(*shape: int) -> np.ndarray[Any, Any]:
        return rng.integers(0, 256, shape, np.uint8).view(E4M3)

    return {
        "key": fp8(tokens, 2, 16),
        "value": fp8(tokens, 2, 16),
        "key_cache": fp8(4, 2, 4, 16),
        "value_cache": fp8(4, 2, 4, 16),
        "slot_mapping": rng.permutation(16)[:tokens].astype(np.int32),
        "key_scale": rng.random((tokens, 2), np.float32),
        "key_scale_cache": rng.random((4, 2, 4, 1), np.float32),
    }


def fused_arrays(rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    return {
        "qkv": rng.standard_normal((3, 12, 128)).astype(ml_dtypes.bfloat16),
        "q_gamma": rng.random(128, np.float32),
        "k_gamma": rng.random(128, np.float32),
        "cos_sin": rng.random((8, 128), np.float32),
        "slot_mapping": np.array([3, 0, 9], np.int32),
        "k_cache": np.zeros((4, 2, 4, 128), E4M3),
        "v_cache": np.zeros((4, 2, 4, 128), E4M3),
        "k_scale_cache": np.zeros((4, 2, 4, 1), np.float32),
        "query_start_loc": np.array([0, 3], np.int32),
        "seq_lens": np.array([5], np.int32),
        "rotation": np.eye(128).astype(ml_dtypes.bfloat16),
        "v_scale": np.ones(2, np.float32),
    }


def uploaded(session: kv.Session, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, kv.DeviceArray]:
    return {name: session.array(array) for name, array in arrays.items()}


def expect_scatter(host: dict[str, np.ndarray[Any, Any]], device: dict[str, kv.DeviceArray]) -> None:
    expected = oracle.scatter_pa_kv_cache_with_k_scale(**host)
    for name in ("key_cache", "value_cache", "key_scale_cache"):
        assert device[name].numpy().tobytes() == getattr(expected, name).tobytes()
