# SPDX-License-Identifier: Apache-2.0
"""The scenes of the fused operator: what of its arguments go together, and which a call is meant for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aclnn_kvcache.dtypes import BFLOAT16, FLOAT32, FP8_E4M3FN, FP8_E8M0, INT8
from aclnn_kvcache.rules.families import where
from aclnn_kvcache.rules.finding import TensorSpec, dense_spec
from aclnn_kvcache.rules.rule import Call, Rule, Unanswerable

PER_TOKEN_PER_HEAD, NO_QUANT, MX_MODE = "PerTokenPerHead", "NoQuant", "Mx"
TND, NTD = "TND", "NTD"
DEFAULT_LAYOUTS = {"layout_qkv": TND, "layout_q_out": NTD}
"""What NULL and "" stand for."""
D = 128


class Scene(NamedTuple):
    """One of the things that the operator does."""

    name: str
    q_quant_mode: str
    k_quant_mode: str
    has_positions: bool
    """mrope_position and mrope_section say where tokens are; otherwise query_start_loc and seq_lens."""
    has_rotation: bool
    layouts: tuple[tuple[str, str], ...]
    """Of qkv and q_out."""
    k_cache: np.dtype[Any]
    q_out: np.dtype[Any]
    scale: np.dtype[Any]
    """Of k_scale_cache and q_scale."""
    scales: tuple[int, ...]
    """What q_scale has behind [T, Nq]."""
    comparison: Mapping[str, str]
    """How results are compared with the oracle's: the rules of ``compare``."""
    has_q_scale: bool = True
    since: str = "A"
    """The revision that brought it."""

    @property
    def modes(self) -> tuple[str, str]:
        return self.q_quant_mode, self.k_quant_mode

    @property
    def kernel(self) -> tuple[np.dtype[Any], ...]:
        """The dtypes of k_cache, q_out and k_scale_cache, by which kernels are told apart."""
        return self.k_cache, self.q_out, self.scale


_FP8 = (FP8_E4M3FN, FP8_E4M3FN)
_TND = ((TND, TND),)

ROPE = Scene(
    "RoPE",
    PER_TOKEN_PER_HEAD,
    PER_TOKEN_PER_HEAD,
    False,
    True,
    ((TND, TND), (TND, NTD), (NTD, NTD)),
    *_FP8,
    FLOAT32,
    (),
    {"k_cache": "fp8", "k_scale_cache": "relative", "q_out": "fp8", "q_scale": "relative"},
)
MROPE = Scene(
    "M-RoPE",
    NO_QUANT,
    PER_TOKEN_PER_HEAD,
    True,
    True,
    _TND,
    INT8,
    BFLOAT16,
    FLOAT32,
    (),
    {"k_cache": "int8", "k_scale_cache": "relative", "q_out": "bf16"},
    has_q_scale=False,
    since="B",
)
MX = Scene(
    "Mx", MX_MODE, MX_MODE, True, False, _TND, *_FP8, FP8_E8M0, (4,), {"k_cache": "mx", "q_out": "mx"}, since="C"
)

SceneOf: TypeAlias = Callable[[Call], Scene]
"""The scene of a call. Raises Unanswerable where another rule says that there is none."""


def mode_of(attributes: Mapping[str, Any], name: str) -> str:
    """A quantisation mode; NULL and "" stand for the first of all. Revisions before the argument do the same."""
    mode: str = attributes.get(name) or PER_TOKEN_PER_HEAD
    return mode


def case_hint(mode: str) -> str:
    """What to say behind a mode that is known in other letters."""
    known = [name for name in (PER_TOKEN_PER_HEAD, NO_QUANT, MX_MODE) if name.lower() == mode.lower() and name != mode]
    return f"; {known[0]!r} is a mode, case counts" if known else ""


def modes_of(call: Call) -> tuple[str, str]:
    return mode_of(call.attributes, "q_quant_mode"), mode_of(call.attributes, "k_quant_mode")


def has_position(call: Call) -> bool:
    return call.specs.get("mrope_position") is not None


def has_section(call: Call) -> bool:
    """A section without values counts as none."""
    return bool(call.attributes.get("mrope_section"))


def intended(scenes: Iterable[Scene], specs: Mapping[str, Any], attributes: Mapping[str, Any]) -> Scene:
    """Which of a revision's scenes a call, right or wrong, is meant for."""
    mode = mode_of(attributes, "q_quant_mode")
    given = specs.get("mrope_position") is not None, bool(attributes.get("mrope_section"))
    is_positioned = all(given) or (any(given) and specs.get("query_start_loc") is None)
    # Of a call that is wrong, the rest tells: the mode of K, or that there is no rotation.
    rest_is_mx = mode_of(attributes, "k_quant_mode") == MX_MODE or specs.get("rotation") is None
    if MX in scenes and (mode == MX_MODE or (mode != NO_QUANT and is_positioned and rest_is_mx)):
        return MX
    return MROPE if MROPE in scenes and (is_positioned or mode == NO_QUANT) else ROPE


def only(scene_of: SceneOf, scenes: tuple[Scene, ...], rules: Iterable[Rule]) -> Iterator[Rule]:
    """The rules, where they hold in some scenes only."""
    words = f"in {' and '.join(scene.name for scene in scenes)}"
    suffix = "".join(f".{scene.name.lower().replace('-', '')}" for scene in scenes)
    return where(lambda call: scene_of(call) in scenes, words, rules, suffix)


def positions_agree(call: Call) -> bool:
    """Whether position and section are both there or both not."""
    if has_position(call) is not has_section(call):
        raise Unanswerable
    return has_position(call)


def outputs_in(*scenes: Scene) -> Callable[[Mapping[str, TensorSpec | None], Mapping[str, Any]], dict[str, TensorSpec]]:
    """How a revision's calls make the outputs that are not given; for a call that is wrong, some that fit it."""
    return partial(_outputs, scenes)


def _outputs(
    scenes: tuple[Scene, ...], specs: Mapping[str, TensorSpec | None], attributes: Mapping[str, Any]
) -> dict[str, TensorSpec]:
    scene, qkv = intended(scenes, specs, attributes), specs.get("qkv")
    token_major = (attributes["layout_qkv"] or DEFAULT_LAYOUTS["layout_qkv"]) != NTD
    tokens = qkv.shape[0 if token_major else 1] if qkv is not None and len(qkv.shape) == 3 else 1
    heads = max(attributes["head_nums"][0], 1) if attributes["head_nums"] else 1
    rows = (tokens, heads) if attributes["layout_q_out"] == TND else (heads, tokens)
    outputs = {"q_out": dense_spec((*rows, D), scene.q_out)}
    # With Mx came modes by which CANN asks for q_scale before it looks for a scene.
    if scene.has_q_scale or (MX in scenes and mode_of(attributes, "q_quant_mode") != NO_QUANT):
        outputs["q_scale"] = dense_spec((*rows, *scene.scales), scene.scale)
    return outputs
