# SPDX-License-Identifier: Apache-2.0
"""Revision B of the fused operator: RoPE and M-RoPE. Its rules in the order of CANN's phase 1, decisions 2 to 36."""

from __future__ import annotations

from collections.abc import Iterator

from aclnn_kvcache.dtypes import FLOAT32
from aclnn_kvcache.rules import qkv_heads as heads
from aclnn_kvcache.rules import qkv_memory as memory
from aclnn_kvcache.rules import qkv_shapes as shapes
from aclnn_kvcache.rules.families import decision, dtype_rules, extent_rules, required_rules
from aclnn_kvcache.rules.qkv_call import (
    ALL_INPUTS,
    ALL_TENSORS,
    BATCHES,
    DTYPES,
    FRONT,
    LAYOUT_NAMES,
    OUTPUTS,
    POSITION,
    qkv_shape,
)
from aclnn_kvcache.rules.qkv_positions import must_be_absent, pair_rule, section_values
from aclnn_kvcache.rules.qkv_scenes import MROPE, MX_MODE, ROPE, Scene, case_hint, mode_of, only, positions_agree
from aclnn_kvcache.rules.rule import INNER, Call, Rule

SCENES = (ROPE, MROPE)
ALWAYS = (*FRONT, "rotation", "v_scale")
PARAMETERS = (*ALL_TENSORS[:-2], "head_nums", *LAYOUT_NAMES, "epsilon", "mrope_section", "q_quant_mode", *OUTPUTS)
CHECKED = (*ALWAYS, "q_out", POSITION, *BATCHES, "q_scale")
"""The order of CANN's lists: position in M-RoPE, what follows it in RoPE."""


def scene_of(call: Call) -> Scene:
    return MROPE if positions_agree(call) else ROPE


def _dtype_rules() -> Iterator[Rule]:
    source = decision("10")
    for name in CHECKED:
        if name in DTYPES:
            yield from dtype_rules({name: DTYPES[name]}, source, "EZ0020")
        elif name == "k_scale_cache":
            yield from dtype_rules({name: (FLOAT32,)}, source, "EZ0020")
        elif name == "q_scale":  # which another decision forbids in M-RoPE
            yield from only(scene_of, (ROPE,), dtype_rules({name: (FLOAT32,)}, source, "EZ0020"))
        elif name == "q_out":
            for scene in SCENES:
                yield from only(scene_of, (scene,), dtype_rules({name: (scene.q_out,)}, source, "EZ0020"))


def _mode(call: Call) -> Iterator[str]:
    scene, mode = scene_of(call), mode_of(call.attributes, "q_quant_mode")
    if mode != scene.q_quant_mode:
        default = " (None means that)" if scene is ROPE else ", which has to be said"
        later = "; Mx came with revision C of the operator" if mode == MX_MODE else ""
        got = f"{mode!r}{case_hint(mode)}{later}"
        yield f"q_quant_mode must be {scene.q_quant_mode!r} in {scene.name}{default}, got {got}"


LAYOUT_RULES: tuple[Rule, ...] = (
    *required_rules((*ALWAYS, "head_nums", "q_out"), "EZ0026"),
    pair_rule("3"),
    *only(scene_of, (MROPE,), [must_be_absent(BATCHES, "4")]),
    *only(scene_of, (ROPE,), required_rules((*BATCHES, "q_scale"), "EZ0026", "5")),
    heads.rule(
        "q_quant_mode",
        ("q_quant_mode",),
        "q_quant_mode must be PerTokenPerHead or None in RoPE, NoQuant in M-RoPE",
        "6",
        _mode,
        "EZ0026",
    ),
    *(
        rule
        for scene in SCENES
        for rule in only(scene_of, (scene,), dtype_rules({"k_cache": (scene.k_cache,)}, decision("7"), "EZ0020"))
    ),
    *only(scene_of, (MROPE,), [must_be_absent(("q_scale",), "8")]),
    *shapes.empty_rules(CHECKED, "9"),
    *_dtype_rules(),
    heads.three_counts("11"),
    heads.positive_counts("12"),
    heads.few_q_heads("13"),
    heads.q_heads_per_k_head("14"),
    heads.equal_counts("15"),
    heads.known_layout("layout_qkv", "16", "EZ0026"),
    heads.known_layout("layout_q_out", "17", "EZ0026"),
    heads.layout_pair("17"),
    *only(scene_of, (MROPE,), [heads.token_major("18")]),
    heads.qkv_rank("19"),
    heads.qkv_heads("20", qkv_shape),
    heads.qkv_head_size("21", qkv_shape),
    *shapes.shapes((shapes.MROPE_POSITION,), "22"),
    section_values("23"),
    shapes.gammas("24"),
    *shapes.shapes(
        (shapes.COS_SIN, shapes.SLOT_MAPPING, shapes.QUERY_START_LOC, shapes.SEQ_LENS, shapes.ROTATION), "25"
    ),
    *only(scene_of, (ROPE,), shapes.shapes((shapes.V_SCALE,), "25")),
    *only(scene_of, (MROPE,), shapes.shapes((shapes.V_SCALE_BY_CHANNEL,), "25")),
    *shapes.shapes(shapes.CACHES_ALONE, "26"),
    shapes.same_blocks("k_cache", "k_scale_cache", "27"),
    shapes.same_blocks("v_cache", "k_cache", "28"),
    *shapes.shapes((shapes.Q_OUT,), "29"),
    *only(scene_of, (ROPE,), shapes.shapes((shapes.Q_SCALE,), "29")),
    *memory.private_format_rules(CHECKED, "30"),
    *memory.undefined_format_rules(CHECKED),
    *memory.place_rules(ALL_INPUTS, ("31", "32"), memory.copied_outside),
    *extent_rules({"qkv": (0, 1, 2), "cos_sin": (0,), "k_cache": (0, 2)}, decision("33"), INNER, "EZ0009"),
    *memory.stride_rules("k_cache", memory.ROWS_APART, "34", INNER),
    *memory.stride_rules("v_cache", memory.ROWS_APART, "34", INNER),
    memory.same_strides("35", INNER),
    *memory.stride_rules("k_scale_cache", memory.ABOVE_0, "36", INNER),
    *memory.own_rules(ALL_INPUTS),
)
