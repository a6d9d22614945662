# SPDX-License-Identifier: Apache-2.0
"""The fused operator's cases, as data: batches, heads, layouts, and how each array lies in its storage."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from aclnn_kvcache import oracle
from aclnn_kvcache.rules.contracts import method
from aclnn_kvcache.rules.qkv_scenes import MROPE, MX, ROPE, Scene
from aclnn_kvcache.smoke.prepared import Arrays, Placed, Prepared, Shape, draw_slots, random_bytes, whole

D = 128
CONTRACT = method("qkv_rms_norm_rope_cache_with_k_scale")
CACHES, OUTPUTS = CONTRACT.caches, CONTRACT.outputs
TABLE = 64
"""Rows of cos_sin for tokens with positions of their own."""
BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)

STORAGES: Mapping[str, Mapping[str, Placed]] = {
    "dense": {},
    "padded": {
        name: Placed(name, lambda s: (*s[:-1], s[-1] + 32), lambda base: base[..., :-32])
        for name in ("k_cache", "v_cache")
    },
    "interleaved": {
        "k_cache": Placed("kv_cache", lambda s: (*s[:3], 2, s[3]), lambda base: base[..., 0, :]),
        "v_cache": Placed("kv_cache", lambda s: (*s[:3], 2, s[3]), lambda base: base[..., 1, :]),
    },
    "token_major": {
        name: Placed(name, lambda s: (s[0], s[2], s[1], s[3]), lambda base: base.transpose(0, 2, 1, 3))
        for name in ("k_cache", "v_cache")
    },
    "layer": {name: Placed(name, lambda s: (3, *s), lambda base: base[1]) for name in CACHES},
    "transposed_qkv": {"qkv": Placed("qkv", lambda s: (s[1], s[0], s[2]), lambda base: base.transpose(1, 0, 2))},
}


class QkvCase(NamedTuple):
    about: str
    lengths: tuple[int, ...]
    """Tokens of each batch in this call."""
    history: tuple[int, ...]
    """Tokens that each batch has in the cache already; in RoPE alone."""
    head_nums: tuple[int, int, int]
    blocks: int
    block_size: int
    layout_qkv: str = "TND"
    layout_q_out: str = "NTD"
    storage: str = "dense"
    run: bool = False
    """Slots follow one another, as in a prefill, instead of being drawn."""
    outputs_given: bool = True
    """q_out and q_scale are passed instead of left to the call."""
    special_rows: bool = False
    """Rows of zeros, infinities, NaN and overflow among the others."""
    on_host: bool = False
    scene: Scene = ROPE
    revisions: str = "ABC"
    operator: str = CONTRACT.name

    def prepare(self, rng: np.random.Generator) -> Prepared:
        """Normally distributed data in random caches; what must come out is the oracle's."""
        values = self._values(rng)
        places = {name: STORAGES[self.storage].get(name, whole(name)) for name in values}
        before: Arrays = {}
        for name, value in values.items():
            place = places[name]
            if place.base not in before:
                before[place.base] = random_bytes(rng, place.shape(value.shape), value.dtype)
            if name not in (*CACHES, *OUTPUTS):
                place.view(before[place.base])[...] = value
        expected = {name: base.copy() for name, base in before.items()}
        rules = {**self.scene.comparison, "kv_cache": self.scene.comparison["k_cache"]}
        facts = (OUTPUTS, rules, CONTRACT.scales, self._note(values["qkv"]))
        prepared = Prepared(before, places, self._options(values), expected, *facts)
        self._expect(prepared)
        return prepared

    def _expect(self, prepared: Prepared) -> None:
        arguments = prepared.arguments(prepared.before)
        inputs = {name: value for name, value in arguments.items() if name not in OUTPUTS}
        results = oracle.qkv_rms_norm_rope_cache_with_k_scale(**inputs, **prepared.options)
        for name in CACHES:
            prepared.arguments(prepared.expected)[name][...] = getattr(results, name)
        made = {name: getattr(results, name) for name in OUTPUTS}
        prepared.expected.update({name: array for name, array in made.items() if array is not None})

    def _options(self, values: Arrays) -> dict[str, Any]:
        absent = {name: None for name in ("query_start_loc", "seq_lens", "rotation") if name not in values}
        layouts = {"layout_qkv": self.layout_qkv, "layout_q_out": self.layout_q_out}
        options = {"head_nums": self.head_nums, **layouts, **absent}
        if self.scene.has_positions:
            modes = dict(zip(("q_quant_mode", "k_quant_mode"), self.scene.modes, strict=True))
            options |= {"mrope_section": (24, 20, 20), **modes}
        return options

    def _values(self, rng: np.random.Generator) -> Arrays:
        """The arguments, dense; of what is written the contents do not count."""
        q_heads, k_heads, v_heads = self.head_nums
        tokens, heads = sum(self.lengths), sum(self.head_nums)
        cache = (self.blocks, k_heads, self.block_size)
        qkv = rng.standard_normal((tokens, heads, D)).astype(BF16)
        if self.special_rows:
            qkv[0] = 0
            qkv[1, :, 5] = np.inf
            qkv[2, :, 7] = np.nan
            qkv[3, :, 64] = 3e38
        scene = self.scene
        rows = TABLE if scene.has_positions else max(map(sum, zip(self.lengths, self.history, strict=True)))
        angles = np.arange(rows)[:, None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
        values: Arrays = {
            "qkv": qkv if self.layout_qkv == "TND" else qkv.transpose(1, 0, 2),
            "q_gamma": rng.normal(1, 0.1, D).astype(np.float32),
            "k_gamma": rng.normal(1, 0.1, D).astype(np.float32),
            "cos_sin": np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32),
            "slot_mapping": draw_slots(rng, tokens, self.blocks * self.block_size, consecutive=self.run).astype(
                np.int32
            ),
            "k_cache": np.empty((*cache, D), scene.k_cache),
            "v_cache": np.empty((*cache, D), E4M3),
            "k_scale_cache": np.empty((*cache, *(scene.scales or (1,))), scene.scale),
        }
        if scene.has_positions:
            values["mrope_position"] = rng.integers(0, TABLE, (tokens, 3), np.int32)
        else:
            values["query_start_loc"] = np.cumsum([0, *self.lengths]).astype(np.int32)
            values["seq_lens"] = np.add(self.lengths, self.history).astype(np.int32)
        if scene.has_rotation:
            values["rotation"] = _hadamard(rng)
        values["v_scale"] = rng.uniform(0.5, 40, (v_heads, D) if scene.has_positions else v_heads).astype(np.float32)
        if self.outputs_given:
            q_shape: Shape = (tokens, q_heads) if self.layout_q_out == "TND" else (q_heads, tokens)
            values["q_out"] = np.empty((*q_shape, D), scene.q_out)
            if scene.has_q_scale:
                values["q_scale"] = np.empty((*q_shape, *scene.scales), scene.scale)
        return values

    def _note(self, qkv: np.ndarray[Any, Any]) -> str:
        rows = oracle.non_finite_rows(qkv, self.head_nums, self.layout_qkv)
        if not rows:
            return ""
        listed = ", ".join(f"token {token} {branch} head {head}" for token, branch, head in rows[:4])
        return f"{len(rows)} input rows are not finite: {listed}{', ...' if len(rows) > 4 else ''}"


def _hadamard(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """An orthogonal matrix that BF16 holds exactly but for its common factor, with columns of random signs."""
    matrix = np.ones((1, 1))
    while len(matrix) < D:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    signed: np.ndarray[Any, Any] = matrix * rng.choice([-1, 1], D) / np.sqrt(D)
    return signed.astype(BF16)


def _positioned(about: str, lengths: tuple[int, ...], **facts: Any) -> QkvCase:
    """A case of M-RoPE, or what ``facts`` change."""
    usual = {"layout_q_out": "TND", "scene": MROPE, "revisions": "BC"}
    return QkvCase(about, lengths, (), (16, 2, 2), 8, 16, **{**usual, **facts})


_mx = partial(_positioned, scene=MX, revisions="C")

QKV_CASES: Mapping[str, QkvCase] = {
    "qkv-decode": QkvCase("one token of each of 8 sequences", (1,) * 8, tuple(range(5, 45, 5)), (16, 2, 2), 16, 16),
    "qkv-prefill": QkvCase("three prompts", (40, 7, 33), (0, 0, 0), (8, 1, 1), 8, 16, run=True),
    "qkv-mixed": QkvCase("prompts, history and an empty batch", (1, 20, 0, 5), (30, 4, 9, 0), (16, 2, 2), 8, 16),
    "qkv-mha": QkvCase("as many K and V heads as Q heads", (9, 4), (0, 3), (4, 4, 4), 8, 8, revisions="A"),
    "qkv-many-heads": QkvCase("120 Q heads", (3,), (2,), (120, 8, 8), 4, 8, revisions="A"),
    "qkv-tnd-out": QkvCase("Q out token-major", (12, 5), (1, 0), (16, 2, 2), 8, 16, layout_q_out="TND"),
    "qkv-ntd": QkvCase("QKV head-major", (12, 5), (1, 0), (16, 2, 2), 8, 16, layout_qkv="NTD"),
    "qkv-allocated": QkvCase("outputs made by the call", (12,), (0,), (16, 2, 2), 8, 16, outputs_given=False),
    "qkv-padded": QkvCase("cache rows with gaps", (12, 5), (1, 0), (16, 2, 2), 8, 16, storage="padded"),
    "qkv-interleaved": QkvCase("K and V rows in one allocation", (12,), (0,), (16, 2, 2), 8, 16, storage="interleaved"),
    "qkv-token-major": QkvCase(
        "caches stored [B, S, N, D]", (12,), (0,), (16, 2, 2), 8, 16, storage="token_major", revisions="AB"
    ),
    "qkv-layer": QkvCase("the middle layer of three", (12,), (0,), (16, 2, 2), 8, 16, storage="layer"),
    "qkv-transposed": QkvCase("QKV a view of head-major", (12,), (0,), (16, 2, 2), 8, 16, storage="transposed_qkv"),
    "qkv-special-rows": QkvCase("zero, Inf, NaN, overflow", (10,), (0,), (8, 1, 1), 4, 8, special_rows=True),
    "qkv-host": QkvCase("NumPy arrays", (12, 5), (1, 0), (16, 2, 2), 8, 16, on_host=True),
    "qkv-host-padded": QkvCase(
        "NumPy arrays with gaps", (12,), (0,), (16, 2, 2), 8, 16, storage="padded", on_host=True
    ),
    "qkv-mrope": _positioned("M-RoPE: INT8 keys, BF16 Q", (40,), run=True),
    "qkv-mrope-padded": _positioned("M-RoPE, cache rows with gaps", (12,), storage="padded"),
    "qkv-mrope-allocated": _positioned("M-RoPE, Q out made by the call", (12,), outputs_given=False),
    "qkv-mrope-special-rows": _positioned("M-RoPE, zero, Inf, NaN, overflow", (10,), special_rows=True),
    "qkv-mrope-host": _positioned("M-RoPE, NumPy arrays", (17,), on_host=True, outputs_given=False),
    "qkv-mx": _mx("Mx: a scale of E8M0 for 32 channels", (40,), run=True),
    "qkv-mx-layer": _mx("Mx, the middle layer of three", (12,), storage="layer"),
    "qkv-mx-allocated": _mx("Mx, outputs made by the call", (12,), outputs_given=False),
    "qkv-mx-special-rows": _mx("Mx, zero, Inf, NaN, overflow", (10,), special_rows=True),
    "qkv-mx-host": _mx("Mx, NumPy arrays", (17,), on_host=True, outputs_given=False),
}
