# SPDX-License-Identifier: Apache-2.0
"""Revision A of the fused operator: RoPE alone. Its rules in the order of CANN's phase 1, decisions 2 to 25."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aclnn_kvcache.dtypes import FLOAT32, FP8_E4M3FN
from aclnn_kvcache.rules import qkv_heads as heads
from aclnn_kvcache.rules import qkv_memory as memory
from aclnn_kvcache.rules import qkv_shapes as shapes
from aclnn_kvcache.rules.families import decision, dtype_rules, extent_rules, required_rules
from aclnn_kvcache.rules.qkv_call import (
    CACHES,
    DTYPES,
    FRONT,
    LAYOUT_NAMES,
    MIDDLE,
    OUTPUTS,
    filled,
    head_counts,
    layout_of,
    output_rows,
    qkv_shape,
)
from aclnn_kvcache.rules.qkv_scenes import D
from aclnn_kvcache.rules.rule import INNER, Call, Rule

TENSORS = (*FRONT, *MIDDLE, *OUTPUTS)
INPUTS = tuple(name for name in TENSORS if name not in CACHES + OUTPUTS)
NAMES = (*FRONT, *MIDDLE, "head_nums", *OUTPUTS)
"""The required arguments, in the order of the C function."""
PARAMETERS = (*NAMES[:-2], *LAYOUT_NAMES, "epsilon", *OUTPUTS)

MOST_QK, MOST_HEADS = 128, 160

_CODES = {"k_cache": FP8_E4M3FN, "k_scale_cache": FLOAT32, "q_out": FP8_E4M3FN, "q_scale": FLOAT32}
ALL_DTYPES = {name: (_CODES[name],) if name in _CODES else DTYPES[name] for name in TENSORS}


def _outputs(call: Call) -> Iterator[str]:
    out, scale, want = filled(call, "q_out"), filled(call, "q_scale"), list(output_rows(call))
    if out != (*want, D) or scale != tuple(want):
        yield (
            f"q_out and q_scale must be {[*want, D]} and {want} with layout_q_out "
            f"{layout_of(call, 'layout_q_out')!r}, got {list(out)} and {list(scale)}"
        )


def _head_limit_rules() -> Iterator[Rule]:
    for id, symbols, parts, most in (("qk", "Nq + Nk", 2, MOST_QK), ("qkv", "Nq + Nk + Nv", 3, MOST_HEADS)):
        expected = f"{symbols} of head_nums must be at most {most}"
        broken = partial(_head_limit, symbols, parts, most)
        yield Rule(f"head_limit.{id}", ("head_nums",), expected, decision("25"), broken, INNER, "EZ0026")


def _head_limit(symbols: str, parts: int, most: int, call: Call) -> Iterator[str]:
    counts = head_counts(call)
    count = sum(counts[:parts])
    if count > most:
        yield f"head_nums must have {symbols} of at most {most}, got {count} of {list(counts)}; split the heads"


LAYOUT_RULES: tuple[Rule, ...] = (
    *required_rules(NAMES, "EZ0026"),
    *shapes.empty_rules(TENSORS, "3"),
    *dtype_rules(ALL_DTYPES, decision("4"), "EZ0020"),
    heads.three_counts("5"),
    heads.positive_counts("6"),
    heads.equal_counts("7"),
    heads.known_layout("layout_qkv", "8", "EZ0026"),
    heads.known_layout("layout_q_out", "9", "EZ0026"),
    heads.layout_pair("9"),
    heads.qkv_rank("10"),
    heads.qkv_heads("11", qkv_shape),
    heads.qkv_head_size("12", qkv_shape),
    shapes.gammas("13"),
    *shapes.shapes(
        (
            shapes.COS_SIN,
            shapes.SLOT_MAPPING,
            shapes.QUERY_START_LOC,
            shapes.SEQ_LENS,
            shapes.ROTATION,
            shapes.V_SCALE,
        ),
        "14",
    ),
    *shapes.shapes(shapes.CACHES_ALONE, "15"),
    shapes.same_blocks("k_cache", "k_scale_cache", "16"),
    shapes.same_blocks("v_cache", "k_cache", "17"),
    heads.rule(
        "shape.q_out.q_scale", OUTPUTS, "q_out and q_scale must have Nq heads of T tokens", "18", _outputs, "EZ0010"
    ),
    *memory.private_format_rules(TENSORS, "19"),
    *memory.undefined_format_rules(TENSORS),
    *memory.place_rules(INPUTS, ("19a", "20"), memory.copied_outside_a),
    *extent_rules({"cos_sin": (0,)}, decision("21"), INNER, "EZ0009"),
    *extent_rules({"qkv": (0, 1, 2), "k_cache": (0, 2)}, "CANN only compares extents"),
    *memory.stride_rules("k_cache", memory.ABOVE_0, "22", INNER),
    *memory.stride_rules("v_cache", memory.ABOVE_0, "22", INNER),
    memory.same_strides("23", INNER),
    *memory.stride_rules("k_scale_cache", memory.ABOVE_0, "24", INNER),
    *_head_limit_rules(),
    *memory.own_rules(INPUTS),
)
