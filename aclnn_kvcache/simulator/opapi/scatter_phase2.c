/* SPDX-License-Identifier: Apache-2.0 */
#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"
#include "core/export.h"
#include "core/faults.h"
#include "opapi/op_run.h"

SIM_EXPORT aclnnStatus aclnnScatterPaKvCacheWithKScale(void *workspace, uint64_t workspaceSize,
                                                       aclOpExecutor *executor, aclrtStream stream)
{
    SIM_CALL(aclnnScatterPaKvCacheWithKScale(workspace, workspaceSize, executor, stream));
    return op_run(__func__, workspace, workspaceSize, executor, stream);
}
