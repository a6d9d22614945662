# SPDX-License-Identifier: Apache-2.0
"""A call of the fused operator, as its rules see it: names, dtypes, and the numbers that shapes depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from aclnn_kvcache.dtypes import BFLOAT16, FLOAT32, FP8_E4M3FN, INT32
from aclnn_kvcache.rules.families import Dtypes
from aclnn_kvcache.rules.qkv_scenes import DEFAULT_LAYOUTS, MROPE, MX, PER_TOKEN_PER_HEAD, ROPE, TND, intended
from aclnn_kvcache.rules.rule import Call, Rule, Unanswerable

CACHES = ("k_cache", "v_cache", "k_scale_cache")
OUTPUTS = ("q_out", "q_scale")
FRONT = ("qkv", "q_gamma", "k_gamma", "cos_sin", "slot_mapping", *CACHES)
"""The tensors in front of all others, in every revision's C function and in every list of its checks."""
MIDDLE = ("query_start_loc", "seq_lens", "rotation", "v_scale")
POSITION = "mrope_position"
BATCHES = ("query_start_loc", "seq_lens")
ALL_TENSORS = (*FRONT, *MIDDLE, POSITION, *OUTPUTS)
"""Of revisions B and C, in the order of their C function."""
ALL_INPUTS = tuple(name for name in ALL_TENSORS if name not in CACHES + OUTPUTS)
LAYOUT_NAMES = ("layout_qkv", "layout_q_out")
MODES = ("q_quant_mode", "k_quant_mode")

DTYPES: Mapping[str, Dtypes] = {
    "qkv": (BFLOAT16,),
    "q_gamma": (FLOAT32,),
    "k_gamma": (FLOAT32,),
    "cos_sin": (FLOAT32,),
    "slot_mapping": (INT32,),
    "v_cache": (FP8_E4M3FN,),
    "query_start_loc": (INT32,),
    "seq_lens": (INT32,),
    "rotation": (BFLOAT16,),
    "v_scale": (FLOAT32,),
    "mrope_position": (INT32,),
}
"""Of the tensors that have one dtype in all scenes."""

LAYOUTS = ("TND", "NTD")


def later_rules(revision: str, later: Mapping[str, str]) -> Iterator[Rule]:
    """One rule for each argument that the revision has not; ``later`` names the one that brought it."""
    for name, since in later.items():
        expected = f"{name} must be None with revision {revision} of the operator: it came with revision {since}"
        source = f"revision {revision} has no such argument"
        broken = partial(_asked_for, revision, tuple(later), name, expected)
        yield Rule(f"later.{name}", (name,), expected, source, broken)


def _asked_for(revision: str, later: tuple[str, ...], name: str, expected: str, call: Call) -> Iterator[str]:
    asked = [other for other in later if _later_value(call, other)]
    if name in asked:
        value = _later_value(call, name)
        got = list(value.shape) if name in call.specs else list(value) if isinstance(value, tuple) else repr(value)
        yield f"{expected}; got {got}" + (_needed(revision, call) if name == asked[0] else "")


def _later_value(call: Call, name: str) -> Any:
    """What is asked for by a later argument, if anything."""
    value = call.specs.get(name) or call.attributes.get(name)
    return None if value == PER_TOKEN_PER_HEAD else value  # all that a revision without quantisation modes does


def _needed(revision: str, call: Call) -> str:
    """Which revision has all of the scene that a call is meant for, if this one has not."""
    scene = intended((ROPE, MROPE, MX), call.specs, call.attributes)
    if scene.since <= revision:
        return ""
    return (
        f"; all of {scene.name} needs revision {scene.since}, stated where it is installed by "
        f"qkv_abi={scene.since!r} or ACLNN_KVCACHE_QKV_ABI={scene.since}"
    )


def filled(call: Call, name: str) -> tuple[int, ...]:
    """A shape without a 0: of an empty tensor another rule speaks."""
    spec = call.spec(name)
    if spec.is_empty:
        raise Unanswerable
    return spec.shape


def three_heads(call: Call) -> tuple[int, ...]:
    """head_nums, if there are three."""
    heads = call.attributes["head_nums"]
    if heads is None or len(heads) != 3:
        raise Unanswerable
    return tuple(heads)


def head_counts(call: Call) -> tuple[int, ...]:
    """Nq, Nk and Nv, if all are above 0."""
    heads = three_heads(call)
    if min(heads) <= 0:
        raise Unanswerable
    return heads


def layout_of(call: Call, name: str) -> str:
    """The layout that an attribute names, if it names one."""
    layout: str = call.attributes[name] or DEFAULT_LAYOUTS[name]
    if layout not in LAYOUTS:
        raise Unanswerable
    return layout


def layouts_of(call: Call) -> tuple[str, str]:
    return layout_of(call, "layout_qkv"), layout_of(call, "layout_q_out")


def qkv_shape(call: Call) -> tuple[int, ...]:
    shape = filled(call, "qkv")
    if len(shape) != 3:
        raise Unanswerable
    return shape


def token_axis(call: Call) -> int:
    return layout_of(call, "layout_qkv").index("T")


def token_count(call: Call) -> int:
    return qkv_shape(call)[token_axis(call)]


def output_rows(call: Call) -> tuple[int, int]:
    """The axes of q_out in front of the head size, and those that q_scale begins with."""
    rows = token_count(call), head_counts(call)[0]
    return rows if layout_of(call, "layout_q_out") == TND else rows[::-1]


def batch_count(call: Call) -> int:
    shape = filled(call, "query_start_loc")
    if len(shape) != 1 or shape[0] < 2:
        raise Unanswerable
    return shape[0] - 1
