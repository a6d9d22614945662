# SPDX-License-Identifier: Apache-2.0
"""Scatter's cases, as data: sizes, element types, and how each array lies in its storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from aclnn_kvcache import oracle
from aclnn_kvcache.rules.scatter_pa_kv_cache_with_k_scale import CACHES
from aclnn_kvcache.smoke.prepared import Arrays, Placed, Prepared, Shape, draw_slots, random_bytes, whole

_PADDED = {
    name: Placed(name, lambda s: (*s[:-1], s[-1] + 32), lambda base: base[..., :-32])
    for name in ("key_cache", "value_cache")
}
_TOKEN_MAJOR = {
    name: Placed(name, lambda s: (s[0], s[2], s[1], s[3]), lambda base: base.transpose(0, 2, 1, 3))
    for name in ("key_cache", "value_cache")
}
_LAYER = {
    name: Placed(name, lambda s: (3, *s), lambda base: base[1])
    for name in ("key_cache", "value_cache", "key_scale_cache")
}

STORAGES: Mapping[str, Mapping[str, Placed]] = {
    "dense": {},
    "padded": _PADDED,
    "padded_scale": {
        "key_scale_cache": Placed("key_scale_cache", lambda s: (*s[:3], 8), lambda base: base[..., :1]),
        **_PADDED,
    },
    "interleaved": {
        "key_cache": Placed("kv_cache", lambda s: (*s[:3], 2, s[3]), lambda base: base[..., 0, :]),
        "value_cache": Placed("kv_cache", lambda s: (*s[:3], 2, s[3]), lambda base: base[..., 1, :]),
    },
    "token_major": _TOKEN_MAJOR,
    "layer": _LAYER,
    "transposed_scale": {
        "key_scale": Placed("key_scale", lambda s: (s[1], s[0]), lambda base: base.transpose(1, 0)),
        **_PADDED,
    },
    "fused_qkv": {
        "key": Placed(
            "qkv",
            lambda s: (s[0], 4 * s[1], s[2]),
            lambda base: base[:, -2 * (base.shape[1] // 4) : -(base.shape[1] // 4)],
        ),
        "value": Placed("qkv", lambda s: (s[0], 4 * s[1], s[2]), lambda base: base[:, -(base.shape[1] // 4) :]),
    },
}


class ScatterCase(NamedTuple):
    about: str
    tokens: int
    heads: int
    blocks: int
    block_size: int
    key_size: int = 128
    value_size: int = 128
    fp8: str = "float8_e4m3fn"
    slots: str = "int32"
    storage: str = "dense"
    padding: int = 0
    """Rows whose slot is -1."""
    run: bool = False
    """Slots follow one another, as in a prefill, instead of being drawn."""
    on_host: bool = False
    """Called with NumPy arrays instead of device arrays."""
    operator: str = "scatter_pa_kv_cache_with_k_scale"
    revisions: str = "ABC"

    def prepare(self, rng: np.random.Generator) -> Prepared:
        """Random bytes in every storage array; what must come out is the oracle's."""
        shapes = self._shapes()
        places = {name: STORAGES[self.storage].get(name, whole(name)) for name in shapes}
        before: Arrays = {}
        for name, shape in shapes.items():
            place = places[name]
            if name == "slot_mapping":
                before[name] = self._slots(rng)
            elif place.base not in before:
                dtype = np.dtype(np.float32 if "scale" in name else getattr(ml_dtypes, self.fp8))
                before[place.base] = random_bytes(rng, place.shape(shape), dtype)
        expected = {name: base.copy() for name, base in before.items()}
        prepared = Prepared(before, places, {"padding": "skip" if self.padding else "error"}, expected)
        results = oracle.scatter_pa_kv_cache_with_k_scale(**prepared.arguments(before))
        for name, result in zip(CACHES, results, strict=True):
            prepared.arguments(expected)[name][...] = result
        return prepared

    def _shapes(self) -> dict[str, Shape]:
        cache = (self.blocks, self.heads, self.block_size)
        return {
            "key": (self.tokens, self.heads, self.key_size),
            "value": (self.tokens, self.heads, self.value_size),
            "key_cache": (*cache, self.key_size),
            "value_cache": (*cache, self.value_size),
            "slot_mapping": (self.tokens,),
            "key_scale": (self.tokens, self.heads),
            "key_scale_cache": (*cache, 1),
        }

    def _slots(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        slots = draw_slots(rng, self.tokens, self.blocks * self.block_size, consecutive=self.run)
        slots[rng.permutation(self.tokens)[: self.padding]] = -1
        return slots.astype(self.slots)


SCATTER_CASES: Mapping[str, ScatterCase] = {
    "decode": ScatterCase("one token of each of 16 sequences", 16, 8, 32, 128),
    "decode-int64": ScatterCase("the same with int64 slots", 16, 8, 32, 128, slots="int64"),
    "decode-e5m2": ScatterCase("the same in the other FP8 format", 16, 8, 32, 128, fp8="float8_e5m2"),
    "prefill": ScatterCase("a run of tokens over several blocks", 300, 4, 8, 64, run=True),
    "prefill-partial": ScatterCase("a run that leaves the last block partly filled", 37, 2, 6, 16, run=True),
    "block-size-1": ScatterCase("one slot a block", 24, 4, 64, 1, run=True),
    "block-size-16": ScatterCase("16 slots a block", 50, 4, 16, 16),
    "block-size-128": ScatterCase("128 slots a block", 130, 2, 4, 128),
    "dk-not-dv": ScatterCase("key and value heads of different sizes", 40, 4, 16, 16, key_size=192, value_size=128),
    "small-heads": ScatterCase("heads of 8 and 5 bytes", 33, 3, 10, 8, key_size=8, value_size=5),
    "padding": ScatterCase("a third of the rows are -1 and skipped", 48, 4, 16, 16, padding=16),
    "padding-int64-e5m2": ScatterCase(
        "the same, int64 and E5M2", 48, 4, 16, 16, slots="int64", fp8="float8_e5m2", padding=16
    ),
    "padded-caches": ScatterCase("cache rows with gaps between them", 64, 4, 16, 16, storage="padded"),
    "padded-scales": ScatterCase("the scale cache's rows too", 64, 4, 16, 16, storage="padded_scale"),
    "interleaved": ScatterCase("K and V rows take turns in one allocation", 64, 4, 16, 16, storage="interleaved"),
    "token-major": ScatterCase("storage [B, S, N, D] seen as [B, N, S, D]", 64, 4, 16, 16, storage="token_major"),
    "layer": ScatterCase("the middle layer of caches for three layers", 64, 4, 16, 16, storage="layer"),
    "transposed-scales": ScatterCase("key_scale stored head-major", 64, 4, 16, 16, storage="transposed_scale"),
    "fused-qkv": ScatterCase("key and value cut out of a fused QKV tensor", 64, 4, 16, 16, storage="fused_qkv"),
    "host": ScatterCase("NumPy arrays: upload, run, wait, write back", 64, 4, 16, 16, on_host=True),
    "host-padded": ScatterCase("NumPy arrays with gaps", 64, 4, 16, 16, storage="padded_scale", on_host=True),
    "host-interleaved": ScatterCase(
        "NumPy arrays, K and V interleaved", 64, 4, 16, 16, storage="interleaved", on_host=True
    ),
    "no-tokens": ScatterCase("T = 0: nothing happens", 0, 4, 16, 16),
}
