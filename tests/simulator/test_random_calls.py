# SPDX-License-Identifier: Apache-2.0
"""2,000 random calls: simulator and oracle, written independently from the same contract, agree in every byte."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv

CALLS, CHUNKS = 2000, 8
CACHES = ("key_cache", "value_cache", "key_scale_cache")

Array = np.ndarray[Any, Any]


def strided(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Any]:
    """A base of random bytes and the index of a view of it with that shape: padding on any axis, an offset."""
    pads = [int(rng.integers(0, 3)) if rng.random() < 0.4 else 0 for _ in shape]
    starts = [int(rng.integers(0, pad + 1)) for pad in pads]
    whole = [extent + pad for extent, pad in zip(shape, pads, strict=True)]
    raw = rng.integers(0, 256, (*whole[:-1], whole[-1] * dtype.itemsize), np.uint8)
    index = tuple(slice(start, start + extent) for start, extent in zip(starts, shape, strict=True))
    return raw.view(dtype), index


def transposed(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The storage shape of an array whose outer axes lie in another order, and the axes that undo it."""
    outer = rng.permutation(len(shape) - 1) if rng.random() < 0.3 else np.arange(len(shape) - 1)
    order = [*map(int, outer), len(shape) - 1]
    return tuple(shape[axis] for axis in order), tuple(map(int, np.argsort(order)))


def random_call(rng: np.random.Generator) -> dict[str, tuple[Array, Any, tuple[int, ...]]]:
    fp8 = np.dtype(rng.choice([ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]))
    blocks, heads, size = (int(rng.integers(1, limit)) for limit in (9, 5, 17))
    tokens = int(rng.integers(0, blocks * size + 1)) if rng.random() < 0.95 else 0
    k_size, v_size = (int(rng.integers(1, 40)) for _ in range(2))
    shapes = {
        "key": (tokens, heads, k_size),
        "value": (tokens, heads, v_size),
        "key_cache": (blocks, heads, size, k_size),
        "value_cache": (blocks, heads, size, v_size),
        "key_scale": (tokens, heads),
        "key_scale_cache": (blocks, heads, size, 1),
    }
    call = {}
    for name, shape in shapes.items():
        storage, axes = transposed(rng, shape)
        base, index = strided(rng, storage, np.dtype(np.float32) if "scale" in name else fp8)
        call[name] = (base, index, axes)
    slots = rng.permutation(blocks * size)[:tokens].astype(rng.choice([np.int32, np.int64]))
    slots[rng.random(tokens) < rng.choice([0, 0.3])] = -1
    call["slot_mapping"] = (slots, slice(None), (0,))
    return call


def views(bases: dict[str, Any], call: dict[str, tuple[Array, Any, tuple[int, ...]]]) -> dict[str, Any]:
    return {name: bases[name][index].transpose(*axes) for name, (_, index, axes) in call.items()}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_simulator_and_oracle_agree(session: kv.Session, chunk: int) -> None:
    for number in range(CALLS // CHUNKS):
        seed = [chunk, number]
        call = random_call(np.random.default_rng(seed))
        before = {name: base for name, (base, _, _) in call.items()}
        expected = {name: base.copy() for name, base in before.items()}
        results = kv.oracle.scatter_pa_kv_cache_with_k_scale(**views(expected, call))
        for name, result in zip(CACHES, results, strict=True):
            views(expected, call)[name][...] = result
        if number % 2:
            actual: dict[str, Any] = {name: base.copy() for name, base in before.items()}
            session.scatter_pa_kv_cache_with_k_scale(**views(actual, call), padding="skip")
        else:
            bases = {name: session.array(base) for name, base in before.items()}
            session.scatter_pa_kv_cache_with_k_scale(**views(bases, call))
            actual = {name: base.numpy() for name, base in bases.items()}
        for name in before:
            result = kv.compare(actual[name], expected[name], before=before[name])
            assert result.ok, f"seed {seed}, {name}: {result.summary()}"
