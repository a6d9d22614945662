# SPDX-License-Identifier: Apache-2.0
"""The contracts of all operators, by the names of their methods."""

from __future__ import annotations

from collections.abc import Mapping

from aclnn_kvcache.rules import qkv_rms_norm_rope_cache_with_k_scale as qkv
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as scatter
from aclnn_kvcache.rules.rule import Contract

CONTRACTS: Mapping[str, Contract] = {contract.name: contract for contract in (scatter.CONTRACT, qkv.CONTRACT)}
