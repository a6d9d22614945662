/* SPDX-License-Identifier: Apache-2.0 */
/* Splits fused QKV, normalises, rotates and quantises Q and K, scales and quantises V, writes K and V into a cache. */
#ifndef ACLNN_KVCACHE_ACLNNOP_ACLNN_QKV_RMS_NORM_ROPE_CACHE_WITH_K_SCALE_H_
#define ACLNN_KVCACHE_ACLNNOP_ACLNN_QKV_RMS_NORM_ROPE_CACHE_WITH_K_SCALE_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Revision C of three argument lists under one name. RoPE needs queryStartLocOptional and seqLensOptional; M-RoPE needs
   mropePositionOptional and mropeSectionOptional instead, and qQuantMode "NoQuant" without qScaleOptional, or "Mx" for
   both modes with qScaleOptional and without rotationOptional. vScaleOptional is always needed; the strings may be
   NULL. */
aclnnStatus aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cosSin,
    const aclTensor *slotMapping, aclTensor *kCacheRef, aclTensor *vCacheRef, aclTensor *kScaleCacheRef,
    const aclTensor *queryStartLocOptional, const aclTensor *seqLensOptional, const aclTensor *rotationOptional,
    const aclTensor *vScaleOptional, const aclTensor *mropePositionOptional, const aclIntArray *headNums,
    const char *layoutQkv, const char *layoutQOut, float epsilon, const aclIntArray *mropeSectionOptional,
    const char *qQuantMode, const char *kQuantMode, aclTensor *qOut, aclTensor *qScaleOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor);

aclnnStatus aclnnQkvRmsNormRopeCacheWithKScale(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                               aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACLNNOP_ACLNN_QKV_RMS_NORM_ROPE_CACHE_WITH_K_SCALE_H_ */
