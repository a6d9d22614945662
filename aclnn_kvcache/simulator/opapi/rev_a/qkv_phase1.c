/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1 of the fused operator: the decision table of phase1_revision_a.md in its order. */
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "core/export.h"
#include "core/faults.h"
#include "opapi/op_checks.h"
#include "opapi/rev_a/checks.h"
#include "opdev/op_errno.h"

/* Row 2; the head counts come between the last input and the outputs. */
static aclnnStatus check_pointers(const void *const handles[QKV_TENSORS], const void *head_nums)
{
    for (int i = 0; i < ARGUMENTS; i++) {
        if (i == Q_OUT && head_nums == NULL) {
            return qkv_null_pointer("headNums");
        }
        if (handles[i] == NULL) {
            return qkv_null_pointer(qkv_names[i]);
        }
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus check(const char *function, const sim_tensor *const tensors[QKV_TENSORS],
                         qkv_attributes *attributes, int32_t *device)
{
    aclnnStatus status = check_parameters(tensors, attributes);

    if (status != ACLNN_SUCCESS || (status = check_shapes(tensors, attributes)) != ACLNN_SUCCESS ||
        (status = qkv_check_formats(tensors, in_order)) != ACLNN_SUCCESS ||
        (status = qkv_check_copies(tensors)) != ACLNN_SUCCESS ||
        (status = qkv_check_views(tensors)) != ACLNN_SUCCESS) {
        return status;
    }
    return op_check_device(function, device);
}

SIM_EXPORT aclnnStatus aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cosSin,
    const aclTensor *slotMapping, aclTensor *kCacheRef, aclTensor *vCacheRef, aclTensor *kScaleCacheRef,
    const aclTensor *queryStartLoc, const aclTensor *seqLens, const aclTensor *rotationOptional,
    const aclTensor *vScaleOptional, const aclIntArray *headNums, const char *layoutQkv, const char *layoutQOut,
    float epsilon, aclTensor *qOut, aclTensor *qScale, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    SIM_CALL_SCRIBBLING(op_scribble(workspaceSize, executor), aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
        qkv, qGamma, kGamma, cosSin, slotMapping, kCacheRef, vCacheRef, kScaleCacheRef, queryStartLoc, seqLens,
        rotationOptional, vScaleOptional, headNums, layoutQkv, layoutQOut, epsilon, qOut, qScale, workspaceSize,
        executor));
    const void *const handles[QKV_TENSORS] = {
        qkv,           qGamma,  kGamma,           cosSin,         slotMapping, kCacheRef, vCacheRef, kScaleCacheRef,
        queryStartLoc, seqLens, rotationOptional, vScaleOptional, qOut,        qScale,
    };
    qkv_attributes attributes = {.layout_text_in = layoutQkv, .layout_text_out = layoutQOut, .epsilon = epsilon};
    const sim_tensor *tensors[QKV_TENSORS];
    int32_t device;
    aclnnStatus status = op_check_outputs(__func__, workspaceSize, executor);

    if (status != ACLNN_SUCCESS || (status = check_pointers(handles, headNums)) != ACLNN_SUCCESS ||
        (status = op_read_tensors(__func__, handles, QKV_TENSORS, tensors)) != ACLNN_SUCCESS ||
        (status = qkv_read_lists(__func__, headNums, NULL, &attributes)) != ACLNN_SUCCESS ||
        (status = check(__func__, tensors, &attributes, &device)) != ACLNN_SUCCESS) {
        return status;
    }
    sim_tensor as_given[2];
    qkv_infer_outputs(handles, tensors, &attributes, as_given);
    if ((status = check_tiling(tensors, &attributes)) != ACLNN_SUCCESS ||
        (status = op_check_kernels(QKV_NAME)) != ACLNN_SUCCESS) {
        return status;
    }
    return qkv_give(handles, tensors, &attributes, device, workspaceSize, executor);
}
