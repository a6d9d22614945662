# SPDX-License-Identifier: Apache-2.0
"""Contracts of aclnnQkvRmsNormRopeCacheWithKScale, one a revision; their rules are in the order in which CANN's phase 1
checks.

Where CANN answers, a rule carries its status and message code; rules with status 0 are this package's own, for what
CANN lets through and the device would do wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aclnn_kvcache.rules import qkv_only_c as only_c
from aclnn_kvcache.rules import qkv_revision_a as a
from aclnn_kvcache.rules import qkv_revision_b as b
from aclnn_kvcache.rules import qkv_revision_c as c
from aclnn_kvcache.rules.batches import batch_rules
from aclnn_kvcache.rules.overlap import overlap_rules, self_overlap_rules
from aclnn_kvcache.rules.qkv_call import ALL_TENSORS, CACHES, OUTPUTS, POSITION, later_rules, token_count
from aclnn_kvcache.rules.qkv_positions import position_rules
from aclnn_kvcache.rules.qkv_scenes import ROPE, Scene, intended, outputs_in
from aclnn_kvcache.rules.rule import Contract, Rule
from aclnn_kvcache.rules.slots import slot_rules

API = "aclnnQkvRmsNormRopeCacheWithKScale"

ATTRIBUTES: Mapping[str, Any] = {"head_nums": None, "layout_qkv": "TND", "layout_q_out": "NTD", "epsilon": 1e-6}
SINCE = {POSITION: "B", "mrope_section": "B", "q_quant_mode": "B", "k_quant_mode": "C"}
"""The revision that brought an argument, for those that A has not."""


def _contract(
    revision: str, parameters: tuple[str, ...], scenes: tuple[Scene, ...], layout_rules: tuple[Rule, ...]
) -> Contract:
    tensors = a.TENSORS if POSITION not in parameters else ALL_TENSORS
    positions = (POSITION,) if POSITION in parameters else ()
    brought = {name: None for name in SINCE if name in parameters and name != POSITION}
    return Contract(
        name="qkv_rms_norm_rope_cache_with_k_scale",
        api=API,
        parameters=parameters,
        tensors=tensors,
        caches=CACHES,
        outputs=OUTPUTS,
        values=("slot_mapping", "query_start_loc", "seq_lens", *positions),
        attributes={**ATTRIBUTES, **brought},
        layout_rules=layout_rules,
        value_rules=(
            *slot_rules("k_cache", can_skip=False),
            *batch_rules(token_count),
            *(position_rules() if positions else ()),
        ),
        self_overlap_rules=tuple(self_overlap_rules(CACHES + OUTPUTS)),
        overlap_rules=tuple(overlap_rules(tensors, CACHES + OUTPUTS)),
        answers_success_early=lambda call: False,
        comparison=lambda tensors, attributes: intended(scenes, tensors, attributes).comparison,
        made_outputs=outputs_in(*scenes),
        scales={"k_cache": "k_scale_cache", "q_out": "q_scale"},
        revision=revision,
        optional=positions,
        later_rules=tuple(later_rules(revision, {n: since for n, since in SINCE.items() if n not in parameters})),
    )


SCENES: Mapping[str, tuple[Scene, ...]] = {"A": (ROPE,), "B": b.SCENES, "C": only_c.SCENES}
"""By revision."""

CONTRACTS: Mapping[str, Contract] = {
    revision: _contract(revision, file.PARAMETERS, SCENES[revision], file.LAYOUT_RULES)
    for revision, file in (("A", a), ("B", b), ("C", c))
}
"""By revision."""
