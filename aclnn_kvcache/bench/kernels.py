# SPDX-License-Identifier: Apache-2.0
"""What the operators and their oracles cost on data of some size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from aclnn_kvcache import oracle
from aclnn_kvcache.bench.measure import Figure, Texts, figure, timed
from aclnn_kvcache.bench.plain import fused_in_plain_numpy, scatter_row_by_row
from aclnn_kvcache.rules.qkv_rms_norm_rope_cache_with_k_scale import SCENES
from aclnn_kvcache.rules.qkv_scenes import ROPE, Scene
from aclnn_kvcache.session import Session

TOKENS, HEADS, D = 4096, (16, 2, 2), 128


def scatter_arrays() -> dict[str, Any]:
    """4,096 tokens of 8 heads into caches that they half fill."""
    rng = np.random.default_rng(0)

    def fp8(*shape: int) -> Any:
        return rng.integers(0, 256, shape, np.uint8).view(ml_dtypes.float8_e4m3fn)

    return {
        "key": fp8(TOKENS, 8, D),
        "value": fp8(TOKENS, 8, D),
        "key_cache": fp8(64, 8, 128, D),
        "value_cache": fp8(64, 8, 128, D),
        "slot_mapping": rng.permutation(64 * 128)[:TOKENS].astype(np.int32),
        "key_scale": rng.random((TOKENS, 8), np.float32),
        "key_scale_cache": rng.random((64, 8, 128, 1), np.float32),
    }


def fused_call(scene: Scene = ROPE) -> dict[str, Any]:
    """4,096 tokens of 16, 2 and 2 heads, in RoPE in one batch; all arguments by name."""
    rng = np.random.default_rng(0)
    bf16 = ml_dtypes.bfloat16
    call: dict[str, Any] = {
        "qkv": rng.standard_normal((TOKENS, sum(HEADS), D), np.float32).astype(bf16),
        "q_gamma": rng.random(D, np.float32),
        "k_gamma": rng.random(D, np.float32),
        "cos_sin": rng.random((TOKENS, D), np.float32),
        "slot_mapping": rng.permutation(TOKENS).astype(np.int32),
        "k_cache": np.zeros((32, HEADS[1], 128, D), scene.k_cache),
        "v_cache": np.zeros((32, HEADS[2], 128, D), ml_dtypes.float8_e4m3fn),
        "k_scale_cache": np.zeros((32, HEADS[1], 128, *(scene.scales or (1,))), scene.scale),
        "query_start_loc": None if scene.has_positions else np.array([0, TOKENS], np.int32),
        "seq_lens": None if scene.has_positions else np.array([TOKENS], np.int32),
        "rotation": rng.standard_normal((D, D), np.float32).astype(bf16) if scene.has_rotation else None,
        "v_scale": rng.random((HEADS[2], D) if scene.has_positions else HEADS[2], np.float32),
        "head_nums": HEADS,
    }
    if scene.has_positions:
        call["mrope_position"] = rng.integers(0, TOKENS, (TOKENS, 3), np.int32)
        call |= {"mrope_section": (24, 20, 20), "layout_q_out": "TND"}
        call |= dict(zip(("q_quant_mode", "k_quant_mode"), scene.modes, strict=True))
    return call


def oracle_figures(repeats: int) -> Iterator[Figure]:
    scatter, fused = scatter_arrays(), fused_call()
    written = [scatter[name] for name in ("key", "value", "key_cache", "value_cache", "key_scale", "key_scale_cache")]

    def scatter_oracle() -> object:
        return oracle.scatter_pa_kv_cache_with_k_scale(**scatter)

    def fused_oracle() -> object:
        return oracle.qkv_rms_norm_rope_cache_with_k_scale(**fused)

    subject = "the oracle of scatter, 4,096 tokens x 8 heads x 128"
    texts = Texts(subject, "rows copied one by one in Python", 300)
    rows = figure(
        "scatter oracle against rows",
        texts,
        "speed-up",
        timed(scatter_oracle),
        timed(lambda: scatter_row_by_row(**scatter)),
        max(3, repeats // 5),
    )
    texts = Texts(subject, "NumPy copying the same inputs and caches contiguously", 3)
    baseline = timed(lambda: [array.copy() for array in written])
    copies = figure("scatter oracle against copies", texts, "ratio", timed(scatter_oracle), baseline, repeats)
    yield rows._replace(note=_bound(rows, copies))
    yield copies
    subject = "the oracle of the fused operator, 4,096 tokens, 16/2/2 heads"
    texts = Texts(subject, "straightforward NumPy with casts of ml_dtypes", 2)
    plain = timed(lambda: fused_in_plain_numpy(**fused))
    yield figure("fused oracle against plain NumPy", texts, "speed-up", timed(fused_oracle), plain, repeats)
    products = np.random.default_rng(1).random((TOKENS * (HEADS[0] + HEADS[1]), D), np.float32)
    weights = fused["rotation"].astype(np.float32)
    texts = Texts(subject, "its matrix products alone, in one call of BLAS", 4)
    yield figure(
        "fused oracle against BLAS", texts, "ratio", timed(fused_oracle), timed(lambda: products @ weights), repeats
    )


def _bound(rows: Figure, copies: Figure) -> str:
    """How much faster than rows a plain copy is, which an oracle, that copies too, cannot outdo."""
    if not rows.baseline_seconds or not copies.baseline_seconds:
        return ""
    bound = rows.baseline_seconds.median / copies.baseline_seconds.median
    return f"NumPy's plain copy in this run is {bound:.3g} times faster than the rows, which is the most to be had"


def kernel_figures(session: Session, repeats: int) -> Iterator[Figure]:
    """Launch to synchronise: on the simulator what its kernels take, on CANN those of the device and the launch."""
    scatter = scatter_arrays()
    device: dict[str, Any] = {name: session.array(array) for name, array in scatter.items()}
    moved = [scatter[name].view(np.uint8) for name in ("key", "value", "key_scale")]
    targets = [np.empty_like(array) for array in moved]
    with session.prepare_scatter_pa_kv_cache_with_k_scale(**device) as plan:

        def copies() -> None:
            for target, source in zip(targets, moved, strict=True):
                np.copyto(target, source)

        texts = Texts("scatter, 4,096 tokens x 8 heads x 128", "memcpy of the same bytes", 2)
        subject = timed(_waited(session, plan))
        yield figure("scatter kernel against memcpy", texts, "ratio", subject, timed(copies), repeats)
        yield from _device_time(session, "scatter", plan)
    for scene in SCENES[session.qkv_abi]:
        yield from _fused_kernel(session, scene, repeats)


def _fused_kernel(session: Session, scene: Scene, repeats: int) -> Iterator[Figure]:
    fused = fused_call(scene)
    arrays = {n: session.array(array) for n, array in fused.items() if isinstance(array, np.ndarray)}
    in_scene = "" if scene is ROPE else f" in {scene.name}"
    with session.prepare_qkv_rms_norm_rope_cache_with_k_scale(**{**fused, **arrays}) as plan:
        texts = Texts(f"the fused operator{in_scene}, 4,096 tokens, 16/2/2 heads", "its oracle", 1.5)
        baseline = timed(lambda: oracle.qkv_rms_norm_rope_cache_with_k_scale(**fused))
        subject = timed(_waited(session, plan))
        yield figure(f"fused kernel{in_scene} against oracle", texts, "speed-up", subject, baseline, repeats)
        yield from _device_time(session, f"fused operator{in_scene}", plan)


def _waited(session: Session, plan: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        plan()
        session.stream.synchronize()

    return run


def _device_time(session: Session, name: str, plan: Callable[[], object]) -> Iterator[Figure]:
    """By events around the launch: the device's own time, host and queue left out. The simulator has none."""
    if session.backend != "cann":
        return
    start, end = session.create_event(), session.create_event()
    start.record(session.stream)
    plan()
    end.record(session.stream)
    session.stream.synchronize()
    texts = Texts(f"{name}, on the device, by events around one launch", "")
    yield Figure(f"device time of {name}", *texts, "µs", end.elapsed_ms(start) * 1000)
    start.close()
    end.close()
