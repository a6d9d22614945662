# SPDX-License-Identifier: Apache-2.0
"""All cases by name, and the C functions that they call."""

from __future__ import annotations

from collections.abc import Mapping

from aclnn_kvcache.rules import qkv_rms_norm_rope_cache_with_k_scale, scatter_pa_kv_cache_with_k_scale
from aclnn_kvcache.smoke.prepared import Case
from aclnn_kvcache.smoke.qkv_cases import QKV_CASES
from aclnn_kvcache.smoke.scatter_cases import SCATTER_CASES

CASES: Mapping[str, Case] = {**SCATTER_CASES, **QKV_CASES}
APIS = (scatter_pa_kv_cache_with_k_scale.API, qkv_rms_norm_rope_cache_with_k_scale.API)


def names_of(revision: str) -> list[str]:
    """The cases that can run where this revision of the fused operator is in force."""
    return [name for name, case in CASES.items() if revision in case.revisions]
