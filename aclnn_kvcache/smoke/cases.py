# SPDX-License-Identifier: Apache-2.0
"""The cases, as data: sizes, element types, and how each array lies in its storage.

A storage gives, for some arguments, the shape of a base array and the view of it that the operator is called with.
Views are made by indexing and transposing only, which NumPy arrays and device arrays share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SCATTER = "scatter_pa_kv_cache_with_k_scale"
APIS = ("aclnnScatterPaKvCacheWithKScale",)
"""The C names of the operators that the cases call."""


class Case(NamedTuple):
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
    operator: str = SCATTER


class Placed(NamedTuple):
    """``base``: the name of the storage array (shared by arguments that lie in one) and its shape by the argument's."""

    base: str
    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    view: Callable[[Any], Any]


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

CASES: dict[str, Case] = {
    "decode": Case("one token of each of 16 sequences", 16, 8, 32, 128),
    "decode-int64": Case("the same with int64 slots", 16, 8, 32, 128, slots="int64"),
    "decode-e5m2": Case("the same in the other FP8 format", 16, 8, 32, 128, fp8="float8_e5m2"),
    "prefill": Case("a run of tokens over several blocks", 300, 4, 8, 64, run=True),
    "prefill-partial": Case("a run that leaves the last block partly filled", 37, 2, 6, 16, run=True),
    "block-size-1": Case("one slot a block", 24, 4, 64, 1, run=True),
    "block-size-16": Case("16 slots a block", 50, 4, 16, 16),
    "block-size-128": Case("128 slots a block", 130, 2, 4, 128),
    "dk-not-dv": Case("key and value heads of different sizes", 40, 4, 16, 16, key_size=192, value_size=128),
    "small-heads": Case("heads of 8 and 5 bytes", 33, 3, 10, 8, key_size=8, value_size=5),
    "padding": Case("a third of the rows are -1 and skipped", 48, 4, 16, 16, padding=16),
    "padding-int64-e5m2": Case("the same, int64 and E5M2", 48, 4, 16, 16, slots="int64", fp8="float8_e5m2", padding=16),
    "padded-caches": Case("cache rows with gaps between them", 64, 4, 16, 16, storage="padded"),
    "padded-scales": Case("the scale cache's rows too", 64, 4, 16, 16, storage="padded_scale"),
    "interleaved": Case("K and V rows take turns in one allocation", 64, 4, 16, 16, storage="interleaved"),
    "token-major": Case("storage [B, S, N, D] seen as [B, N, S, D]", 64, 4, 16, 16, storage="token_major"),
    "layer": Case("the middle layer of caches for three layers", 64, 4, 16, 16, storage="layer"),
    "transposed-scales": Case("key_scale stored head-major", 64, 4, 16, 16, storage="transposed_scale"),
    "fused-qkv": Case("key and value cut out of a fused QKV tensor", 64, 4, 16, 16, storage="fused_qkv"),
    "host": Case("NumPy arrays: upload, run, wait, write back", 64, 4, 16, 16, on_host=True),
    "host-padded": Case("NumPy arrays with gaps", 64, 4, 16, 16, storage="padded_scale", on_host=True),
    "host-interleaved": Case("NumPy arrays, K and V interleaved", 64, 4, 16, 16, storage="interleaved", on_host=True),
    "no-tokens": Case("T = 0: nothing happens", 0, 4, 16, 16),
}
