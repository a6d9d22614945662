# SPDX-License-Identifier: Apache-2.0
"""The operators as one would write them down first: what the oracles are measured against."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

FP8_MAX = np.float32(448)


def scatter_row_by_row(
    key: Any, value: Any, key_cache: Any, value_cache: Any, slot_mapping: Any, key_scale: Any, key_scale_cache: Any
) -> tuple[Any, Any, Any]:
    caches = key_cache.copy(), value_cache.copy(), key_scale_cache.copy()
    size = key_cache.shape[2]
    for token, slot in enumerate(slot_mapping):
        block, offset = divmod(int(slot), size)
        for head in range(key.shape[1]):
            caches[0][block, head, offset] = key[token, head]
            caches[1][block, head, offset] = value[token, head]
            caches[2][block, head, offset, 0] = key_scale[token, head]
    return caches


def fused_in_plain_numpy(
    qkv: Any,
    q_gamma: Any,
    k_gamma: Any,
    cos_sin: Any,
    slot_mapping: Any,
    k_cache: Any,
    v_cache: Any,
    k_scale_cache: Any,
    query_start_loc: Any,
    seq_lens: Any,
    rotation: Any,
    v_scale: Any,
    head_nums: tuple[int, int, int],
    epsilon: float = 1e-6,
) -> tuple[Any, ...]:
    """One batch, layouts TND and NTD."""
    q_heads, k_heads, _ = head_nums
    tokens = np.arange(len(qkv)) + int(seq_lens[0]) - len(qkv)
    cos, sin = cos_sin[tokens, None, :64], cos_sin[tokens, None, 64:]
    weights = rotation.astype(np.float32)

    def rows(x: Any, gamma: Any) -> tuple[Any, Any]:
        x = x.astype(np.float32)
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(epsilon)) * gamma
        low, high = x[..., :64], x[..., 64:]
        turned = np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1).astype(ml_dtypes.bfloat16)
        out = turned.astype(np.float32) @ weights
        scale = np.abs(out).max(axis=-1, keepdims=True) / FP8_MAX
        return np.clip(out / scale, -FP8_MAX, FP8_MAX).astype(ml_dtypes.float8_e4m3fn), scale[..., 0]

    q, q_scale = rows(qkv[:, :q_heads], q_gamma)
    k, k_scale = rows(qkv[:, q_heads : q_heads + k_heads], k_gamma)
    v = np.clip(qkv[:, q_heads + k_heads :].astype(np.float32) * v_scale[:, None], -FP8_MAX, FP8_MAX)
    caches = k_cache.copy(), v_cache.copy(), k_scale_cache.copy()
    block, offset = np.divmod(slot_mapping, k_cache.shape[2])
    caches[0][block, :, offset] = k
    caches[1][block, :, offset] = v.astype(ml_dtypes.float8_e4m3fn)
    caches[2][block, :, offset, 0] = k_scale
    return q.swapaxes(0, 1).copy(), q_scale.swapaxes(0, 1).copy(), *caches
