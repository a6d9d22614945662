# SPDX-License-Identifier: Apache-2.0
"""Rules of aclnnQkvRmsNormRopeCacheWithKScale, revision A, in the order in which CANN's phase 1 checks.

A stage that finds something is the last, since the later ones rely on it. Rules with status 0 are this package's own,
for what CANN lets through and the device would do wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aclnn_kvcache.rules import qkv_memory, qkv_shapes
from aclnn_kvcache.rules.batches import check_batches
from aclnn_kvcache.rules.common import Specs, first_stage, missing
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.qkv_call import CACHES, DEFAULT_LAYOUTS, INPUTS, NAMES, OUTPUTS, TENSORS, Call
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.rules.slots import check_slots

__all__ = ["API", "CACHES", "INPUTS", "NAMES", "OUTPUTS", "TENSORS", "WRITTEN", "check", "check_values"]

API = "aclnnQkvRmsNormRopeCacheWithKScale"
WRITTEN = (*CACHES, *OUTPUTS)
STAGES = qkv_shapes.STAGES + qkv_memory.STAGES


def check(
    specs: Mapping[str, TensorSpec | None],
    head_nums: Sequence[int] | None,
    layout_qkv: str | None = None,
    layout_q_out: str | None = None,
    epsilon: float = 1e-6,
) -> list[Finding]:
    """What is wrong with a call, in CANN's order; empty for a call that the device carries out as documented.

    ``specs`` has an entry for each of ``TENSORS``. Values are looked at by ``check_values``, overlaps by
    ``check_overlap`` with ``WRITTEN``.
    """
    absent = list(missing({**specs, "head_nums": head_nums}, NAMES, "EZ0026"))
    if absent or head_nums is None:
        return absent
    present: Specs = {name: spec for name, spec in specs.items() if spec is not None}
    layouts = layout_qkv or DEFAULT_LAYOUTS[0], layout_q_out or DEFAULT_LAYOUTS[1]
    call = Call(present, head_nums, *layouts, epsilon)
    return first_stage(stage(call) for stage in STAGES)


def check_values(specs: Specs, values: Mapping[str, np.ndarray[Any, Any]]) -> list[Finding]:
    """What is wrong with slots, batches and positions, for a call in which ``check`` finds nothing.

    ``values`` holds those of slot_mapping, query_start_loc and seq_lens that are on the host; CANN looks at none.
    """
    found: list[Finding] = []
    if "slot_mapping" in values:
        blocks, _, block_size, _ = specs["k_cache"].shape
        found += check_slots(values["slot_mapping"], blocks, block_size, skip_padding=False, can_skip=False)
    if "query_start_loc" in values:
        tokens, rows = specs["slot_mapping"].shape[0], specs["cos_sin"].shape[0]
        found += check_batches(values["query_start_loc"], values.get("seq_lens"), tokens, rows)
    return found


CONTRACT = Contract(
    name="qkv_rms_norm_rope_cache_with_k_scale",
    api=API,
    parameters=(*NAMES[:-2], "layout_qkv", "layout_q_out", "epsilon", *OUTPUTS),
    tensors=TENSORS,
    caches=CACHES,
    outputs=OUTPUTS,
    attributes={"head_nums": None, "layout_qkv": "TND", "layout_q_out": "NTD", "epsilon": 1e-6},
    layout_rules=(),
    data_rules=(),
    answers_success_early=lambda call: False,
)
