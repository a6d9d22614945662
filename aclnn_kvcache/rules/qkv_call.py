# SPDX-License-Identifier: Apache-2.0
"""A call of the fused operator, as its rules see it: names, dtypes, layouts, and the numbers that shapes depend on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aclnn_kvcache.dtypes import BFLOAT16, FLOAT32, FP8_E4M3FN, INT32
from aclnn_kvcache.rules.finding import TensorSpec
from aclnn_kvcache.rules.rule import Call, Unanswerable

DTYPES = {
    "qkv": (BFLOAT16,),
    "q_gamma": (FLOAT32,),
    "k_gamma": (FLOAT32,),
    "cos_sin": (FLOAT32,),
    "slot_mapping": (INT32,),
    "k_cache": (FP8_E4M3FN,),
    "v_cache": (FP8_E4M3FN,),
    "k_scale_cache": (FLOAT32,),
    "query_start_loc": (INT32,),
    "seq_lens": (INT32,),
    "rotation": (BFLOAT16,),
    "v_scale": (FLOAT32,),
    "q_out": (FP8_E4M3FN,),
    "q_scale": (FLOAT32,),
}
TENSORS = tuple(DTYPES)
CACHES = ("k_cache", "v_cache", "k_scale_cache")
OUTPUTS = ("q_out", "q_scale")
INPUTS = tuple(name for name in TENSORS if name not in CACHES + OUTPUTS)
NAMES = (*TENSORS[:-2], "head_nums", *OUTPUTS)
"""The required arguments, in the order of the C function."""

LAYOUTS = ("TND", "NTD")
DEFAULT_LAYOUTS = {"layout_qkv": "TND", "layout_q_out": "NTD"}
"""What NULL and "" stand for."""

D = 128


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


def qkv_shape(call: Call) -> tuple[int, ...]:
    shape = filled(call, "qkv")
    if len(shape) != 3:
        raise Unanswerable
    return shape


def token_count(call: Call) -> int:
    return qkv_shape(call)[layout_of(call, "layout_qkv").index("T")]


def batch_count(call: Call) -> int:
    shape = filled(call, "query_start_loc")
    if len(shape) != 1 or shape[0] < 2:
        raise Unanswerable
    return shape[0] - 1


def output_shapes(qkv: TensorSpec | None, attributes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes of q_out and q_scale in a call whose qkv and attributes are right; of another, some that fit it."""
    token_major = (attributes["layout_qkv"] or DEFAULT_LAYOUTS["layout_qkv"]) != "NTD"
    tokens = qkv.shape[0 if token_major else 1] if qkv is not None and len(qkv.shape) == 3 else 1
    heads = max(attributes["head_nums"][0], 1) if attributes["head_nums"] else 1
    rows = (tokens, heads) if attributes["layout_q_out"] == "TND" else (heads, tokens)
    return {"q_out": (*rows, D), "q_scale": rows}
