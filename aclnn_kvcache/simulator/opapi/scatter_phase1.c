/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1 of the scatter operator: the decision table of phase1_revision_a.md in its order. */
#include <string.h>

#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"
#include "core/context.h"
#include "core/export.h"
#include "core/handle.h"
#include "core/message.h"
#include "opapi/op_executor.h"
#include "opapi/op_tensor.h"
#include "opapi/scatter.h"
#include "opdev/op_errno.h"

#define INNER_ERROR "EZ9999", "AclNN_Inner_Error"

/* Rows 1 and 2; CANN logs a missing tensor without reporting it (habits.md, fact 5). */
static aclnnStatus check_pointers(const void *const handles[SCATTER_TENSORS], const uint64_t *workspace_size,
                                  aclOpExecutor *const *executor)
{
    if (workspace_size == NULL || executor == NULL) {
        sim_message("EZ1001", "AclNN_Parameter_Error", "%s is nullptr",
                    workspace_size == NULL ? "workspaceSize" : "executor");
        return ACLNN_ERR_PARAM_NULLPTR;
    }
    for (int i = 0; i < SCATTER_TENSORS; i++) {
        if (handles[i] == NULL) {
            return ACLNN_ERR_PARAM_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

/* CANN would read freed memory; there is no answer of its own to give. */
static aclnnStatus read_tensors(const void *const handles[SCATTER_TENSORS], const sim_tensor *tensors[SCATTER_TENSORS])
{
    for (int i = 0; i < SCATTER_TENSORS; i++) {
        tensors[i] = sim_handle_get(SIM_TENSOR, handles[i]);
        if (tensors[i] == NULL) {
            sim_misuse(SCATTER_NAME "GetWorkspaceSize", "argument %d was destroyed before or never was a tensor", i);
            sim_message(INNER_ERROR, "argument %d is no tensor", i);
            return ACLNN_ERR_INNER_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

/* Row 7: making a view looks at the offset, and at nothing else of the storage. */
static aclnnStatus check_views(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    static const scatter_tensor views[] = {KEY, VALUE, KEY_CACHE, VALUE_CACHE, KEY_SCALE, KEY_SCALE_CACHE};

    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        const sim_tensor *tensor = tensors[views[i]];
        if (tensor->offset > op_tensor_storage_elements(tensor)) {
            sim_message(INNER_ERROR, "a view begins at element %lld of a storage of %lld", (long long)tensor->offset,
                        (long long)op_tensor_storage_elements(tensor));
            return ACLNN_ERR_INNER_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

/* The tiling starts with the platform, which needs a device (observed.md: 561103 naming aclrtGetDevice and 107002). */
static aclnnStatus check_device(int32_t *device)
{
    const int error = sim_current_device(device);

    if (error != ACL_SUCCESS) {
        sim_message(INNER_ERROR, "aclrtGetDevice failed with %d: this thread has no current device", error);
        return ACLNN_ERR_INNER_NULLPTR;
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus give_empty(const void *const handles[SCATTER_TENSORS],
                              const sim_tensor *const tensors[SCATTER_TENSORS], uint64_t *workspace_size,
                              aclOpExecutor **executor)
{
    const op_call call = {.handles = handles, .tensors = tensors, .tensor_count = SCATTER_TENSORS};

    return op_executor_give(&call, workspace_size, executor);
}

static aclnnStatus give_kernel(const void *const handles[SCATTER_TENSORS],
                               const sim_tensor *const tensors[SCATTER_TENSORS], const char *layout, int32_t device,
                               bool view_path, uint64_t *workspace_size, aclOpExecutor **executor)
{
    scatter_details details;
    const uint64_t workspace_bytes = scatter_stage(tensors, view_path, &details);
    const op_call call = {
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
    const void *const handles[SCATTER_TENSORS] = {
        key, value, keyCacheRef, valueCacheRef, slotMapping, keyScale, keyScaleCacheRef,
    };
    const sim_tensor *tensors[SCATTER_TENSORS];
    aclnnStatus status = check_pointers(handles, workspaceSize, executor);

    if (status != ACLNN_SUCCESS || (status = read_tensors(handles, tensors)) != ACLNN_SUCCESS) {
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
        (status = check_device(&device)) != ACLNN_SUCCESS || (status = scatter_check_tiling(tensors)) != ACLNN_SUCCESS) {
        return status;
    }
    return give_kernel(handles, tensors, cacheLayoutOptional, device, view_path, workspaceSize, executor);
}
