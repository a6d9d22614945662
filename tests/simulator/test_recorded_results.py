# SPDX-License-Identifier: Apache-2.0
"""Whole results of the fused operator, byte for byte what they always were: as digests, recorded when the kernel went
row by row through plain loops. Inputs come from a hash, which is the same everywhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import qkv_calls as calls

Case = dict[str, Any]

CASES: dict[str, tuple[Case, str]] = {
    "token-major": (
        {"tokens": 37, "heads": (16, 2, 2), "blocks": 5, "block_size": 8},
        "654f7680943a6e74a6bb5b3682c2241f4f70da0476a33367f0dc3da6e5f1b9b4",
    ),
    "head-major": (
        {"tokens": 29, "heads": (5, 3, 3), "blocks": 4, "block_size": 8, "layouts": ("NTD", "NTD")},
        "45557e1d6d72bebefdc756c1940eea9e6f5ddd39edac5890281d4886a4cecf2f",
    ),
    "any BF16 pattern": (
        {"tokens": 64, "heads": (8, 1, 1), "blocks": 4, "block_size": 16, "layouts": ("TND", "NTD")},
        "be1bbb56ac0236b6c0d32f74a64df37c053f75b0a6ebf6dd331401035c3385c0",
    ),
    "tokens that share slots": (
        {"tokens": 1500, "heads": (8, 1, 1), "blocks": 1, "block_size": 900},
        "e5ea314ddfecfb96d0dcdcce67fa6b7c79413305717d8ee821d8325608b82d7d",
    ),
}


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


def integers(seed: str, shape: tuple[int, ...], dtype: Any = np.int16) -> np.ndarray:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(hashlib.shake_256(seed.encode()).digest(count), dtype).reshape(shape)


def fill(call: Any, name: str) -> None:
    """Rows of ordinary size, or of every bit pattern there is; a table of all angles; slots in disorder."""
    arrays = call.arrays
    tokens = arrays["qkv"].shape[0]
    raw = integers(f"{name} qkv", arrays["qkv"].shape)
    if name != "any BF16 pattern":
        raw = (raw.astype(np.float32) / 4096).view(np.uint32) >> 16
    arrays["qkv"][:] = raw.view(np.uint16) if raw.dtype == np.int16 else raw
    for part, scale in (("qGamma", 16384), ("kGamma", 8192), ("cosSin", 32768), ("vScaleOptional", 64)):
        arrays[part][...] = integers(f"{name} {part}", arrays[part].shape).astype(np.float32) / scale
    rotation = integers(f"{name} rotation", (128, 128), np.int8).astype(np.float32) / 512
    arrays["rotationOptional"][:] = rotation.view(np.uint32) >> 16
    slots = arrays["kCacheRef"].shape[0] * arrays["kCacheRef"].shape[2]
    arrays["slotMapping"][:] = np.arange(tokens) * 7 % slots
    call.epsilon = 1e-6


def digest(results: dict[str, np.ndarray]) -> str:
    """Every NaN counts as the same one: which bits it has is left open."""
    total = hashlib.sha256()
    for name in calls.RESULTS:
        array = results[name]
        if array.dtype == np.float32:
            array = np.where(np.isnan(array), np.uint32(0x7FC0_0000), array.view(np.uint32))
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


SHARED = "tokens that share slots"


def marked(names: Iterable[str]) -> list[Any]:
    """The names as parameters, with what the checks are to say."""
    return [
        pytest.param(name, marks=[pytest.mark.provokes("race:duplicate_slot")] if name == SHARED else [], id=name)
        for name in names
    ]


@pytest.mark.parametrize("name", marked(CASES))
def test_results_are_those_recorded(device: Any, name: str) -> None:
    options, wanted = CASES[name]
    call = calls.Call(device, rows=options["tokens"], **options)
    fill(call, name)
    assert call.run() == 0
    assert digest(call.results()) == wanted
