# SPDX-License-Identifier: Apache-2.0
"""Revision C of the fused operator: RoPE, M-RoPE and Mx. Its rules in CANN's order, decisions 2 to 44."""

from __future__ import annotations

from functools import partial

from aclnn_kvcache.dtypes import FLOAT32, FP8_E8M0
from aclnn_kvcache.rules import qkv_heads as heads
from aclnn_kvcache.rules import qkv_memory as memory
from aclnn_kvcache.rules import qkv_only_c as c
from aclnn_kvcache.rules import qkv_shapes as shapes
from aclnn_kvcache.rules.families import decision, dtype_rules, format_rules, required_rules, where
from aclnn_kvcache.rules.qkv_call import (
    ALL_INPUTS,
    ALL_TENSORS,
    BATCHES,
    DTYPES,
    FRONT,
    LAYOUT_NAMES,
    MODES,
    OUTPUTS,
    POSITION,
)
from aclnn_kvcache.rules.qkv_positions import must_be_absent, pair_rule, section_length, section_values
from aclnn_kvcache.rules.qkv_scenes import MROPE, MX, NO_QUANT, PER_TOKEN_PER_HEAD, ROPE, modes_of, only
from aclnn_kvcache.rules.rule import INVALID, Rule

PARAMETERS = (*ALL_TENSORS[:-2], "head_nums", *LAYOUT_NAMES, "epsilon", "mrope_section", *MODES, *OUTPUTS)
FOUR_APART: memory.Least = (1, 1, 4)
"""Strides of a cache with four scales a row."""

_QUANTISED = "unless q_quant_mode is NoQuant"
_UNSEEN_Q_OUT = "CANN does not look at outputs here; the kernel would write past one that is too small"
_UNSEEN_Q_SCALE = "CANN does not look, as long as the kernel package calls q_scale optional"

LAYOUT_RULES: tuple[Rule, ...] = (
    *required_rules((*FRONT, "v_scale", "head_nums", "q_out"), "EZ0026"),
    *where(c.is_plain, "in RoPE", required_rules(BATCHES, "EZ0026", "3")),
    *where(
        lambda call: c.is_plain(call) or modes_of(call)[0] == NO_QUANT,
        "in RoPE and M-RoPE",
        required_rules(("rotation",), "EZ0026", "4"),
    ),
    *where(lambda call: modes_of(call)[0] == NO_QUANT, "in M-RoPE", [must_be_absent(("q_scale",), "5")]),
    *where(
        lambda call: modes_of(call)[0] in (PER_TOKEN_PER_HEAD, MX.q_quant_mode),
        _QUANTISED,
        required_rules(("q_scale",), "EZ0026", "6"),
    ),
    *memory.place_rules(ALL_INPUTS, ("7", "8"), memory.copied_outside),
    heads.three_counts("9"),
    heads.counts_in_one("10"),
    heads.known_layout("layout_qkv", "11", "EZ0024"),
    heads.known_layout("layout_q_out", "12", "EZ0024"),
    heads.layout_pair("13"),
    pair_rule("14"),
    c.scene_rule("15"),
    heads.qkv_rank("16"),
    c.qkv_size("17"),
    heads.qkv_heads("18", c.qkv_shape),
    *dtype_rules({name: DTYPES[name] for name in FRONT if name in DTYPES}, decision("19"), "EZ1009"),
    c.kernel_rule("19"),
    *c.scalar_rules("20"),
    *c.ranks({"cos_sin": 2}, "21", "EZ0011"),
    *c.ranks({"query_start_loc": 1}, "22", "EZ0011"),
    c.two_starts("23"),
    *c.ranks({"seq_lens": 1}, "24", "EZ0011"),
    *c.exact_shapes((shapes.SEQ_LENS._replace(others=("query_start_loc",)),), "25", "EZ0010"),
    *c.ranks({POSITION: 2}, "26", "EZ0011"),
    *c.ranks({"k_cache": 4}, "27", "EZ0011"),
    c.table_rows("28"),
    c.cache_slots("29"),
    section_length("30"),
    section_values("31", with_length=False),
    c.few_tokens("32"),
    *c.scene_dtypes("33"),
    *c.ranks({"q_gamma": 1, "k_gamma": 1, "slot_mapping": 1, "rotation": 2}, "34", "EZ0012"),
    *only(c.scene_of, (ROPE,), c.ranks({"v_scale": 1}, "34", "EZ0012")),
    *only(c.scene_of, (MROPE, MX), c.ranks({"v_scale": 2}, "34", "EZ0012")),
    shapes.gammas("35", partial(c.of_rank, 1)),
    *c.exact_shapes((shapes.COS_SIN, shapes.SLOT_MAPPING, shapes.MROPE_POSITION, shapes.ROTATION), "36"),
    *only(c.scene_of, (ROPE,), c.exact_shapes((shapes.V_SCALE,), "36")),
    *only(c.scene_of, (MROPE, MX), c.exact_shapes((shapes.V_SCALE_BY_CHANNEL,), "36")),
    *c.ranks({"v_cache": 4, "k_scale_cache": 4}, "37", "EZ0012"),
    *c.exact_shapes((shapes.K_CACHE, c.V_CACHE), "38", "EZ0008"),
    *only(c.scene_of, (ROPE, MROPE), c.exact_shapes((c.k_scale_cache(1),), "38", "EZ0008")),
    *only(c.scene_of, (MX,), c.exact_shapes((c.k_scale_cache(4),), "38", "EZ0008")),
    *memory.stride_rules("k_cache", memory.ROWS_APART, "39", INVALID),
    *memory.stride_rules("v_cache", memory.ROWS_APART, "39", INVALID),
    memory.same_strides("40", INVALID),
    memory.nested_rule(("k_cache", "v_cache"), "41"),
    *only(c.scene_of, (ROPE, MROPE), memory.stride_rules("k_scale_cache", memory.ABOVE_0, "42", INVALID)),
    *only(c.scene_of, (MX,), memory.stride_rules("k_scale_cache", FOUR_APART, "42", INVALID)),
    memory.nested_rule(("k_scale_cache",), "43"),
    *only(c.scene_of, (MX,), [c.mx_strides("44")]),
    *shapes.own_shapes((shapes.Q_OUT,), _UNSEEN_Q_OUT),
    *only(c.scene_of, (ROPE,), shapes.own_shapes((shapes.Q_SCALE,), _UNSEEN_Q_OUT)),
    *only(c.scene_of, (MX,), shapes.own_shapes((shapes.Q_SCALE_BY_BLOCK,), _UNSEEN_Q_OUT)),
    *only(c.scene_of, (ROPE,), dtype_rules({"q_scale": (FLOAT32,)}, _UNSEEN_Q_SCALE, None, 0)),
    *only(c.scene_of, (MX,), dtype_rules({"q_scale": (FP8_E8M0,)}, _UNSEEN_Q_SCALE, None, 0)),
    *format_rules(ALL_TENSORS, "CANN does not look at formats here"),
    *memory.own_rules(ALL_INPUTS),
)
