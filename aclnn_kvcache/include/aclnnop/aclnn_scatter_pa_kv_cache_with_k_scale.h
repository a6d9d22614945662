/* SPDX-License-Identifier: Apache-2.0 */
/* Moves FP8 key/value rows and FP32 key scales into a paged KV cache by slot mapping. */
#ifndef ACLNN_KVCACHE_ACLNNOP_ACLNN_SCATTER_PA_KV_CACHE_WITH_K_SCALE_H_
#define ACLNN_KVCACHE_ACLNNOP_ACLNN_SCATTER_PA_KV_CACHE_WITH_K_SCALE_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* keyScale is an input although it is not const; cacheLayoutOptional is char * and is never read. */
aclnnStatus aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(
    const aclTensor *key, const aclTensor *value, aclTensor *keyCacheRef, aclTensor *valueCacheRef,
    const aclTensor *slotMapping, aclTensor *keyScale, aclTensor *keyScaleCacheRef, char *cacheLayoutOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor);

aclnnStatus aclnnScatterPaKvCacheWithKScale(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                            aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACLNNOP_ACLNN_SCATTER_PA_KV_CACHE_WITH_K_SCALE_H_ */
