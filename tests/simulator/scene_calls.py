# SPDX-License-Identifier: Apache-2.0
"""Calls of the fused operator in all its scenes, as arrays for a session: simple ones, and random ones."""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy as np

import aclnn_kvcache as kv
from aclnn_kvcache.compare.report import Comparison
from aclnn_kvcache.compare.results import compare_results
from aclnn_kvcache.rules.contracts import contract

BF16, E4M3, E8M0 = (np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu"))
INT8, INT32, F32 = np.dtype(np.int8), np.dtype(np.int32), np.dtype(np.float32)
D = 128
OPERATOR = "qkv_rms_norm_rope_cache_with_k_scale"
CACHES, OUTPUTS = ("k_cache", "v_cache", "k_scale_cache"), ("q_out", "q_scale")

REVISION = os.environ.get("ACLNN_KVCACHE_QKV_ABI", "A")
"""The one that this process has."""
SCENES = {"A": ("RoPE",), "B": ("RoPE", "M-RoPE"), "C": ("RoPE", "M-RoPE", "Mx")}
MODES = {"RoPE": (None, None), "M-RoPE": ("NoQuant", None), "Mx": ("Mx", "Mx")}

Array = np.ndarray[Any, Any]
Call = dict[str, Any]
"""Arguments and attributes."""


def simple(scene: str, x: Any = 1.0, tokens: int = 3, k_heads: int = 1, blocks: int = 2, size: int = 4) -> Call:
    """Gammas, factors and cosines 1, sines 0, identity rotation, epsilon 0, and every position 0."""
    heads = (8 * k_heads, k_heads, k_heads)
    cos_sin = np.repeat(np.float32([[1, 0]]), 64, axis=1).repeat(16, axis=0)
    cache = (blocks, k_heads, size)
    positioned, mx = scene != "RoPE", scene == "Mx"
    return {
        "qkv": np.broadcast_to(np.asarray(x, np.float32), (tokens, sum(heads), D)).astype(BF16),
        "q_gamma": np.ones(D, np.float32),
        "k_gamma": np.ones(D, np.float32),
        "cos_sin": cos_sin,
        "slot_mapping": np.arange(tokens, dtype=np.int32),
        "k_cache": np.full((*cache, D), 0x2A, np.uint8).view(INT8 if scene == "M-RoPE" else E4M3),
        "v_cache": np.full((*cache, D), 0x55, np.uint8).view(E4M3),
        "k_scale_cache": np.full((*cache, 4), 7, np.uint8).view(E8M0) if mx else np.full((*cache, 1), -1, np.float32),
        "query_start_loc": None if positioned else np.array([0, tokens], np.int32),
        "seq_lens": None if positioned else np.array([tokens], np.int32),
        "rotation": None if mx else np.eye(D).astype(BF16),
        "v_scale": np.ones((k_heads, D) if positioned else k_heads, np.float32),
        "mrope_position": np.zeros((tokens, 3), np.int32) if positioned else None,
        "mrope_section": (24, 20, 20) if positioned else None,
        "q_quant_mode": MODES[scene][0],
        "k_quant_mode": MODES[scene][1],
        "head_nums": heads,
        "layout_q_out": "TND",
        "epsilon": 0.0,
    }


def random_call(scene: str, rng: np.random.Generator) -> Call:
    """As revisions B and C take it; caches are views with gaps."""
    k_heads, tokens, size = (int(n) for n in (rng.choice([1, 1, 2, 3, 8]), rng.integers(1, 12), rng.integers(1, 17)))
    blocks, table = -(-tokens // size) + int(rng.integers(0, 4)), int(rng.integers(1, 60))
    call = simple(scene, 0.0, tokens, k_heads, blocks, size)
    angles = rng.uniform(-np.pi, np.pi, (max(table, tokens + 30), D // 2))
    qkv = rng.standard_normal(call["qkv"].shape) * 10.0 ** rng.uniform(-3, 3)
    call |= {
        "qkv": qkv.astype(BF16),
        "q_gamma": rng.normal(1, 0.3, D).astype(np.float32),
        "k_gamma": rng.normal(1, 0.3, D).astype(np.float32),
        "cos_sin": np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32),
        "slot_mapping": rng.permutation(blocks * size)[:tokens].astype(np.int32),
        "v_scale": rng.uniform(0.01, 300, call["v_scale"].shape).astype(np.float32),
        "epsilon": float(rng.choice([1e-6, 1e-5, 0.0])),
    }
    pads = rng.integers(0, 3, 3)
    rows = _bytes(rng, call["k_cache"].shape[:3], pads, 2 * D)
    call["k_cache"], call["v_cache"] = rows[..., :D].view(call["k_cache"].dtype), rows[..., D:].view(E4M3)
    scale = call["k_scale_cache"]
    width = scale.shape[-1] * scale.itemsize
    call["k_scale_cache"] = _bytes(rng, scale.shape[:3], rng.integers(0, 3, 3), width).view(scale.dtype)
    if scene != "Mx":
        call["rotation"] = (rng.standard_normal((D, D)) / np.sqrt(D)).astype(BF16)
    if scene == "RoPE":
        cut = int(rng.integers(0, tokens + 1))
        call["query_start_loc"] = np.array([0, cut, tokens], np.int32)
        call["seq_lens"] = (np.array([cut, tokens - cut]) + rng.integers(0, 30, 2)).astype(np.int32)
        layouts = [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD")][rng.integers(3)]
        call["layout_qkv"], call["layout_q_out"] = layouts
        if layouts[0] == "NTD":
            call["qkv"] = np.ascontiguousarray(call["qkv"].swapaxes(0, 1))
    else:
        call["mrope_position"] = rng.integers(0, len(call["cos_sin"]), (tokens, 3), np.int32)
        height, width = (int(n) for n in rng.integers(0, 22, 2))
        call["mrope_section"] = (int(rng.integers(0, 65 - height - width)), height, width)
    return call


def _bytes(rng: np.random.Generator, extents: tuple[int, ...], pads: Array, width: int) -> Array:
    """Random bytes with gaps on three axes."""
    shape = [extent + int(pad) for extent, pad in zip(extents, pads, strict=True)]
    raw = rng.integers(0, 256, (*shape, width), np.uint8)
    return raw[: extents[0], : extents[1], : extents[2]]


def arrays(call: Call) -> dict[str, Array]:
    return {name: value for name, value in call.items() if isinstance(value, np.ndarray)}


def uploaded(session: kv.Session, call: Call, *on_host: str) -> Call:
    """The call on device arrays."""
    return {**call, **{n: session.array(array) for n, array in arrays(call).items() if n not in on_host}}


def run(session: kv.Session, call: Call, *, on_device: bool = False) -> dict[str, Array]:
    """Caches and outputs after the call, an output that is None left out. The call's own arrays end as they began."""
    before = {name: call[name].copy() for name in CACHES}
    given = uploaded(session, call) if on_device else call
    made = dict(zip(OUTPUTS, session.qkv_rms_norm_rope_cache_with_k_scale(**given), strict=True))
    arrays = {**{name: given[name] for name in CACHES}, **{n: array for n, array in made.items() if array is not None}}
    results = {name: array.numpy() if on_device else array.copy() for name, array in arrays.items()}
    for name in CACHES:
        call[name][...] = before[name]
    return results


def by_oracle(call: Call) -> dict[str, Array]:
    results = kv.oracle.qkv_rms_norm_rope_cache_with_k_scale(**call)._asdict()
    return {name: array for name, array in results.items() if array is not None}


def compared(call: Call, results: dict[str, Array]) -> dict[str, Comparison]:
    """Results against the oracle's, by the rules of the scene. Both must be there, or both not."""
    expected, rules = by_oracle(call), contract(OPERATOR, REVISION)
    assert results.keys() == expected.keys()
    before = {name: call[name] for name in CACHES}
    return dict(compare_results(results, expected, before, rules.comparison(call, call), rules.scales))


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    """Whether every byte is equal."""
    return one.keys() == other.keys() and all(array.tobytes() == other[name].tobytes() for name, array in one.items())
