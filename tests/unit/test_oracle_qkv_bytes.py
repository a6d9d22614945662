# SPDX-License-Identifier: Apache-2.0
"""The fused oracle, which works on chunks and by integers, against whole arrays and casts of ml_dtypes: every byte."""

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache import oracle
from aclnn_kvcache.oracle import qkv_rows
from aclnn_kvcache.oracle.bf16 import plain_nans, round_to_bf16

BF16, E4M3FN, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn), np.float32
PAYLOADS = np.array([0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFFFF8000, 0x7F800001], np.uint32).view(F32)


def to_codes(values):
    return np.clip(np.where(np.isnan(values), F32(0), values), F32(-448), F32(448)).astype(E4M3FN)


def straightforward_rows(x, gamma, cos, sin, weights, eps):
    """Codes and scales of head rows [T, N, 128], as the contract is read aloud."""
    x = x.astype(F32)
    low, high = x[..., :64], x[..., 64:]
    sums = low * low + high * high
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    x = x / np.sqrt(sums * F32(1 / 128) + F32(eps)) * gamma
    low, high = x[..., :64], x[..., 64:]
    turned = np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)
    out = turned.astype(BF16).astype(F32).reshape(-1, 128) @ weights
    out = out.reshape(x.shape)
    scale = np.abs(out).max(axis=-1, keepdims=True) / F32(448)
    return to_codes(out / scale), scale[..., 0]


def straightforward(a, heads, eps):
    nq, nk, _ = heads
    starts, lengths, slots = a["query_start_loc"], a["seq_lens"], a["slot_mapping"]
    positions = np.concatenate(
        [np.arange(length - n, length) for length, n in zip(lengths, np.diff(starts), strict=True)]
    )
    angles = a["cos_sin"][positions][:, None]
    weights = a["rotation"].astype(F32)
    rest = angles[..., :64], angles[..., 64:], weights, eps
    q, q_scale = straightforward_rows(a["qkv"][:, :nq], a["q_gamma"], *rest)
    k, k_scale = straightforward_rows(a["qkv"][:, nq : nq + nk], a["k_gamma"], *rest)
    v = to_codes(a["qkv"][:, nq + nk :].astype(F32) * a["v_scale"][:, None])
    k_cache, v_cache, scales = (a[name].copy() for name in ("k_cache", "v_cache", "k_scale_cache"))
    block, offset = np.divmod(slots, k_cache.shape[2])
    k_cache[block, :, offset], v_cache[block, :, offset], scales[block, :, offset, 0] = k, v, k_scale
    return q, q_scale, k_cache, v_cache, scales


def arguments(seed, tokens, heads):
    """Random numbers; a rotation with two entries a column, so that no order of the matrix sums shows."""
    r = np.random.default_rng(seed)
    nk, history = heads[1], 3
    rotation = np.zeros((128, 128), F32)
    for column in range(128):
        rotation[r.choice(128, 2, replace=False), column] = r.standard_normal(2)
    blocks = -(-tokens // 16) + 1
    return {
        "qkv": (r.standard_normal((tokens, sum(heads), 128)) * 2).astype(BF16),
        "q_gamma": r.standard_normal(128).astype(F32),
        "k_gamma": r.standard_normal(128).astype(F32),
        "cos_sin": r.standard_normal((tokens + history, 128)).astype(F32),
        "slot_mapping": r.permutation(blocks * 16)[:tokens].astype(np.int32),
        "k_cache": r.integers(0, 256, (blocks, nk, 16, 128), np.uint8).view(E4M3FN),
        "v_cache": r.integers(0, 256, (blocks, nk, 16, 128), np.uint8).view(E4M3FN),
        "k_scale_cache": r.integers(0, 1 << 32, (blocks, nk, 16, 1), np.uint32).view(F32),
        "query_start_loc": np.array([0, tokens], np.int32),
        "seq_lens": np.array([tokens + history], np.int32),
        "rotation": rotation.astype(BF16),
        "v_scale": r.standard_normal(nk).astype(F32),
    }


def same_bytes(call, heads, eps=1e-6):
    with np.errstate(all="raise"):
        result = oracle.qkv_rms_norm_rope_cache_with_k_scale(**call, head_nums=heads, layout_q_out="TND", epsilon=eps)
    with np.errstate(all="ignore"):
        expected = straightforward(call, heads, eps)
    for name, array, wanted in zip(result._fields, result, expected, strict=True):
        bits, wanted_bits = array.view(f"u{array.itemsize}"), wanted.view(f"u{wanted.itemsize}")
        same = bits == wanted_bits
        if array.dtype == F32:  # which NaN a scale is, no step says
            same |= np.isnan(array) & np.isnan(wanted)
        assert same.all(), (name, np.argwhere(~same)[:3])
    return result


@pytest.mark.parametrize("rows", [1, 100, 2048])
def test_random_numbers(rows, monkeypatch):
    monkeypatch.setattr(qkv_rows, "_ROWS", rows)
    for seed, heads in enumerate([(1, 1, 1), (16, 2, 2), (3, 5, 5)]):
        same_bytes(arguments(seed, 67, heads), heads)


def test_every_bfloat16_in_ordinary_rows():
    """Each pattern once in a row of its own, as Q, K and V: NaN, infinities, subnormals, squares that overflow."""
    call = arguments(3, 1 << 14, (2, 1, 1))
    patterns = np.arange(1 << 16, dtype=np.uint16).view(BF16).reshape(-1, 4)
    call["qkv"][np.arange(len(patterns))[:, None], np.arange(4), np.arange(len(patterns))[:, None] % 128] = patterns
    result = same_bytes(call, (2, 1, 1))
    assert 0 < np.isnan(result.q_scale).sum() < result.q_scale.size / 10


def test_random_bits():
    call = arguments(4, 2000, (4, 2, 2))
    call["qkv"] = np.random.default_rng(4).integers(0, 1 << 16, call["qkv"].shape, np.uint16).view(BF16)
    same_bytes(call, (4, 2, 2), 0)


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-40, -3e38], ids=str)
def test_constant_rows(value):
    call = arguments(5, 9, (2, 2, 2))
    call["qkv"][::2] = value
    for eps in (0, 1e-6):
        same_bytes(call, (2, 2, 2), eps)


@pytest.mark.parametrize("name", ["q_gamma", "k_gamma", "cos_sin", "v_scale"])
def test_any_nan_and_infinity_beside_the_rows(name):
    for value in (*PAYLOADS, F32(np.inf), F32(-np.inf), F32(3e38), F32(1e-45)):
        call = arguments(6, 12, (2, 2, 2))
        call[name].reshape(-1)[1::64] = value
        same_bytes(call, (2, 2, 2))


def test_rounding_to_bf16_is_that_of_ml_dtypes():
    """All upper halves with the lower halves around the tie, and random bits."""
    upper = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    random = np.random.default_rng(7).integers(0, 1 << 32, 1 << 18, np.uint32)
    values = plain_nans(np.concatenate([(upper | lower).ravel(), random]).view(F32))
    with np.errstate(all="ignore"):
        expected = values.astype(BF16).astype(F32)
    with np.errstate(all="raise"):
        round_to_bf16(values, np.empty_like(values))
    assert np.array_equal(np.isnan(values), np.isnan(expected))
    numbers = ~np.isnan(expected)
    assert np.array_equal(values[numbers].view(np.uint32), expected[numbers].view(np.uint32))


def test_numbers_keep_their_bits_beside_plain_nans():
    values = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, *PAYLOADS], F32)
    before, after = values.view(np.uint32).copy(), plain_nans(values).view(np.uint32)
    assert after[:5].tolist() == before[:5].tolist()
    assert after[5:].tolist() == [0x7FC00000] * len(PAYLOADS)
    assert values.view(np.uint32).tolist() == before.tolist()
