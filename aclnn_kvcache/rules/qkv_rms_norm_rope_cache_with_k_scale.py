# SPDX-License-Identifier: Apache-2.0
"""Rules of aclnnQkvRmsNormRopeCacheWithKScale, in the order in which CANN's phase 1 checks.

Where CANN answers, a rule carries its status and message code; rules with status 0 are this package's own, for what
CANN lets through and the device would do wrong.
"""

from __future__ import annotations

from aclnn_kvcache.rules.batches import batch_rules
from aclnn_kvcache.rules.families import decision, dtype_rules, required_rules
from aclnn_kvcache.rules.overlap import overlap_rules, self_overlap_rules
from aclnn_kvcache.rules.qkv_call import CACHES, DTYPES, NAMES, OUTPUTS, TENSORS, token_count
from aclnn_kvcache.rules.qkv_memory import MEMORY_RULES
from aclnn_kvcache.rules.qkv_shapes import SHAPE_RULES, empty_rules
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.rules.slots import slot_rules

API = "aclnnQkvRmsNormRopeCacheWithKScale"

CONTRACT = Contract(
    name="qkv_rms_norm_rope_cache_with_k_scale",
    api=API,
    parameters=(*NAMES[:-2], "layout_qkv", "layout_q_out", "epsilon", *OUTPUTS),
    tensors=TENSORS,
    caches=CACHES,
    outputs=OUTPUTS,
    values=("slot_mapping", "query_start_loc", "seq_lens"),
    attributes={"head_nums": None, "layout_qkv": "TND", "layout_q_out": "NTD", "epsilon": 1e-6},
    layout_rules=(
        *required_rules(NAMES, "EZ0026"),
        *empty_rules(),
        *dtype_rules(DTYPES, decision("4"), "EZ0020"),
        *SHAPE_RULES,
        *MEMORY_RULES,
    ),
    value_rules=(*slot_rules("k_cache", can_skip=False), *batch_rules(token_count)),
    self_overlap_rules=tuple(self_overlap_rules(CACHES + OUTPUTS)),
    overlap_rules=tuple(overlap_rules(TENSORS, CACHES + OUTPUTS)),
    answers_success_early=lambda call: False,
    comparison={"k_cache": "fp8", "k_scale_cache": "relative", "q_out": "fp8", "q_scale": "relative"},
)
