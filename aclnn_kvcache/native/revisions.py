# SPDX-License-Identifier: Apache-2.0
"""Argument lists that one symbol has had in revisions of the operator, of which our header states one.

The fused operator kept its name while its arguments changed; dlsym cannot tell the revisions apart.
"""

from __future__ import annotations

from collections.abc import Mapping

QKV_ABI = "ACLNN_KVCACHE_QKV_ABI"
"""Environment variable that states the revision of the fused operator, like the argument ``qkv_abi``."""

QKV = "aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize"

_B_TENSORS = """
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cosSin,
    const aclTensor *slotMapping, aclTensor *kCacheRef, aclTensor *vCacheRef, aclTensor *kScaleCacheRef,
    const aclTensor *queryStartLocOptional, const aclTensor *seqLensOptional, const aclTensor *rotationOptional,
    const aclTensor *vScaleOptional, const aclTensor *mropePositionOptional, const aclIntArray *headNums,
    const char *layoutQkv, const char *layoutQOut, float epsilon, const aclIntArray *mropeSectionOptional,
    const char *qQuantMode"""
_OUT = "aclTensor *qOut, aclTensor *qScaleOptional, uint64_t *workspaceSize, aclOpExecutor **executor"

REVISIONS: Mapping[str, Mapping[str, str | None]] = {
    QKV: {
        "A": None,  # our header's own
        "B": f"aclnnStatus {QKV}({_B_TENSORS}, {_OUT});",
        "C": f"aclnnStatus {QKV}({_B_TENSORS}, const char *kQuantMode, {_OUT});",
    }
}
"""Functions whose arguments must be known before they are called, with each revision's declaration."""
