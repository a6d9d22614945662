# SPDX-License-Identifier: Apache-2.0
"""The contracts of all operators, by the names of their methods, and by revision where the arguments have changed."""

from __future__ import annotations

from collections.abc import Mapping

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.rules import qkv_rms_norm_rope_cache_with_k_scale as qkv
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as scatter
from aclnn_kvcache.rules.rule import Contract

FIRST, NEWEST = "A", "C"

CONTRACTS: Mapping[str, Contract] = {item.name: item for item in (scatter.CONTRACT, qkv.CONTRACTS[FIRST])}
"""Of the revision that the headers of this package state."""

_BY_REVISION: Mapping[str, Mapping[str, Contract]] = {qkv.CONTRACTS[FIRST].name: qkv.CONTRACTS}


def contract(operator: str, revision: str = FIRST) -> Contract:
    """The contract of an operator, by the name of its method, in a revision of the fused operator.

    Raises ArgumentError for a revision that does not exist, KeyError for an operator.
    """
    if revision not in qkv.CONTRACTS:
        raise ArgumentError("qkv_abi", " or ".join(map(repr, qkv.CONTRACTS)), repr(revision))
    return _BY_REVISION.get(operator, {}).get(revision) or CONTRACTS[operator]


def method(operator: str) -> Contract:
    """The contract that has all arguments of the method: that of the newest revision."""
    return contract(operator, NEWEST)
