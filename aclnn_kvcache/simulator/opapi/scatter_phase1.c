/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1 of the scatter operator: the decision table of phase1_revision_a.md in its order. */
#include <string.h>

#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"
#include "core/export.h"
#include "core/faults.h"
#include "opapi/op_checks.h"
#include "opapi/op_executor.h"
#include "opapi/scatter.h"
#include "opdev/op_errno.h"

#define PHASE_1 SCATTER_NAME "GetWorkspaceSize"

/* Row 2; CANN logs a missing tensor without reporting it (habits.md, fact 5). */
static aclnnStatus check_pointers(const void *const handles[SCATTER_TENSORS])
{
    for (int i = 0; i < SCATTER_TENSORS; i++) {
        if (handles[i] == NULL) {
            return ACLNN_ERR_PARAM_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

/* Row 7. */
static aclnnStatus check_views(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    static const scatter_tensor views[] = {KEY, VALUE, KEY_CACHE, VALUE_CACHE, KEY_SCALE, KEY_SCALE_CACHE};
    aclnnStatus status = ACLNN_SUCCESS;

    for (size_t i = 0; i < sizeof views / sizeof views[0] && status == ACLNN_SUCCESS; i++) {
        status = op_check_view(tensors[views[i]]);
    }
    return status;
}

static aclnnStatus give_empty(const void *const handles[SCATTER_TENSORS],
                              const sim_tensor *const tensors[SCATTER_TENSORS], uint64_t *workspace_size,
                              aclOpExecutor **executor)
{
    const op_call call = {
        .function = PHASE_1, .handles = handles, .tensors = tensors, .tensor_count = SCATTER_TENSORS};

    return op_executor_give(&call, workspace_size, executor);
}

static aclnnStatus give_kernel(const void *const handles[SCATTER_TENSORS],
                               const sim_tensor *const tensors[SCATTER_TENSORS], const char *layout, int32_t device,
                               bool view_path, uint64_t *workspace_size, aclOpExecutor **executor)
{
    scatter_details details;
    const uint64_t workspace_bytes = scatter_stage(tensors, view_path, &details);
    const op_call call = {
        .function = PHASE_1,
        .kernel = &scatter_kernel,
        .workspace_bytes = workspace_bytes,
        .details = &details,
        .details_bytes = sizeof details,
        .handles = handles,
        .tensors = tensors,
        .tensor_count = SCATTER_TENSORS,
        .attributes = layout, /* never read by the operator, but an attribute all the same */
        .attribute_bytes = layout == NULL ? 0 : strlen(layout) + 1,
        .device = device,
        /* Its ViewCopy of a cache onto itself gives up caching and repeating (habits.md, fact 3). */
        .abandons_cache = view_path ? NULL : "the operator copies a tensor onto itself",
    };

    return op_executor_give(&call, workspace_size, executor);
}

SIM_EXPORT aclnnStatus aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(
    const aclTensor *key, const aclTensor *value, aclTensor *keyCacheRef, aclTensor *valueCacheRef,
    const aclTensor *slotMapping, aclTensor *keyScale, aclTensor *keyScaleCacheRef, char *cacheLayoutOptional,
    uint64_t *workspaceSize, aclOpExecutor **executor)
{
    SIM_CALL_SCRIBBLING(op_scribble(workspaceSize, executor), aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(
        key, value, keyCacheRef, valueCacheRef, slotMapping, keyScale, keyScaleCacheRef, cacheLayoutOptional,
        workspaceSize, executor));
    const void *const handles[SCATTER_TENSORS] = {
        key, value, keyCacheRef, valueCacheRef, slotMapping, keyScale, keyScaleCacheRef,
    };
    const sim_tensor *tensors[SCATTER_TENSORS];
    aclnnStatus status = op_check_outputs(__func__, workspaceSize, executor);

    if (status != ACLNN_SUCCESS || (status = check_pointers(handles)) != ACLNN_SUCCESS ||
        (status = op_read_tensors(__func__, handles, SCATTER_TENSORS, tensors)) != ACLNN_SUCCESS) {
        return status;
    }
    if (scatter_is_empty_call(tensors)) {
        return give_empty(handles, tensors, workspaceSize, executor);
    }
    if ((status = scatter_check_parameters(tensors)) != ACLNN_SUCCESS) {
        return status;
    }
    const bool view_path = scatter_takes_view_path(tensors);
    int32_t device;
    if ((view_path && (status = check_views(tensors)) != ACLNN_SUCCESS) ||
        (status = op_check_device(__func__, &device)) != ACLNN_SUCCESS ||
        (status = scatter_check_tiling(tensors)) != ACLNN_SUCCESS ||
        (status = op_check_kernels(SCATTER_NAME)) != ACLNN_SUCCESS) {
        return status;
    }
    return give_kernel(handles, tensors, cacheLayoutOptional, device, view_path, workspaceSize, executor);
}
