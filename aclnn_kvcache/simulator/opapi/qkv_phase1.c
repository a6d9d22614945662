/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1 of the fused operator: the decision table of phase1_revision_a.md in its order. */
#include <string.h>

#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "core/export.h"
#include "core/faults.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/message.h"
#include "nnopbase/holders.h"
#include "opapi/op_checks.h"
#include "opapi/op_executor.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv.h"
#include "opapi/qkv_messages.h"
#include "opdev/op_errno.h"

/* What the library itself asks for (observed.md). */
static const uint64_t library_bytes = 33554944;

/* Row 2; the head counts come between the last input and the outputs. */
static aclnnStatus check_pointers(const void *const handles[QKV_TENSORS], const void *head_nums)
{
    const char *missing = NULL;

    for (int i = 0; i < QKV_TENSORS && missing == NULL; i++) {
        if (i == Q_OUT && head_nums == NULL) {
            missing = "headNums";
        } else if (handles[i] == NULL) {
            missing = qkv_names[i];
        }
    }
    if (missing != NULL) {
        sim_message_solution(BAD_VALUE, "%s is nullptr", missing);
        return ACLNN_ERR_PARAM_NULLPTR;
    }
    return ACLNN_SUCCESS;
}

/* Like tensors, a head count list that is gone has no answer of CANN's. */
static aclnnStatus read_head_nums(const char *function, const void *handle, qkv_attributes *attributes)
{
    const sim_holder *holder = sim_handle_get(SIM_INT_ARRAY, handle);

    if (holder == NULL) {
        sim_report_handle(function, "headNums", SIM_INT_ARRAY, handle);
        sim_message("EZ9999", "AclNN_Inner_Error", "headNums is no int array");
        return ACLNN_ERR_INNER_NULLPTR;
    }
    attributes->head_nums = (const void *)holder->values;
    attributes->head_nums_length = holder->size;
    return ACLNN_SUCCESS;
}

/* The operator's shape inference writes the caller's output descriptors: dense strides, and a storage of the view's
   shape (qkv_rms_norm_rope_cache_with_k_scale.md, 4). The shape itself was checked and is there already. */
static void infer_shape(const void *handle)
{
    sim_tensor *tensor = sim_handle_get(SIM_TENSOR, handle);

    if (tensor != NULL) {
        sim_dense_strides(tensor, tensor->strides);
        tensor->storage_rank = tensor->rank;
        memcpy(tensor->storage_dims, tensor->dims, sizeof tensor->dims);
    }
}

static uint64_t stage(const sim_tensor *const tensors[QKV_TENSORS], qkv_details *details)
{
    uint64_t end = library_bytes;

    for (int i = 0; i < QKV_TENSORS; i++) {
        details->staged_at[i] = NOT_STAGED;
        if (qkv_is_input((qkv_tensor)i) && !op_tensor_is_contiguous(tensors[i])) {
            end = op_stage_reserve(tensors[i], end, &details->staged_at[i]);
        }
    }
    return end;
}

static aclnnStatus give_kernel(const void *const handles[QKV_TENSORS], const sim_tensor *const tensors[QKV_TENSORS],
                               const qkv_attributes *attributes, int32_t device, uint64_t *workspace_size,
                               aclOpExecutor **executor)
{
    qkv_details details = {
        .layout_in = attributes->layout_in,
        .layout_out = attributes->layout_out,
        .epsilon = attributes->epsilon,
    };
    uint32_t epsilon_bits;
    memcpy(&epsilon_bits, &attributes->epsilon, sizeof epsilon_bits);
    const int64_t key[] = {
        attributes->heads[Q_HEADS], attributes->heads[K_HEADS], attributes->heads[V_HEADS],
        attributes->layout_in,      attributes->layout_out,     epsilon_bits,
    };
    for (int kind = 0; kind < HEAD_KINDS; kind++) {
        details.heads[kind] = (uint64_t)attributes->heads[kind];
    }
    const uint64_t workspace_bytes = stage(tensors, &details);
    const op_call call = {
        .function = QKV_NAME "GetWorkspaceSize",
        .kernel = &qkv_kernel,
        .workspace_bytes = workspace_bytes,
        .details = &details,
        .details_bytes = sizeof details,
        .handles = handles,
        .tensors = tensors,
        .tensor_count = QKV_TENSORS,
        .attributes = key,
        .attribute_bytes = sizeof key,
        .device = device,
    };

    return op_executor_give(&call, workspace_size, executor);
}

static aclnnStatus check(const char *function, const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes, int32_t *device)
{
    aclnnStatus status = qkv_check_parameters(tensors, attributes);

    if (status == ACLNN_SUCCESS) {
        status = qkv_check_shapes(tensors, attributes);
    }
    if (status == ACLNN_SUCCESS) {
        status = qkv_check_storage(tensors);
    }
    return status == ACLNN_SUCCESS ? op_check_device(function, device) : status;
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
        (status = read_head_nums(__func__, headNums, &attributes)) != ACLNN_SUCCESS ||
        (status = check(__func__, tensors, &attributes, &device)) != ACLNN_SUCCESS) {
        return status;
    }
    /* What tells calls apart are the descriptors as they came. */
    const sim_tensor as_given[] = {*tensors[Q_OUT], *tensors[Q_SCALE]};
    tensors[Q_OUT] = &as_given[0];
    tensors[Q_SCALE] = &as_given[1];
    infer_shape(qOut);
    infer_shape(qScale);
    if ((status = qkv_check_tiling(tensors, &attributes)) != ACLNN_SUCCESS ||
        (status = op_check_kernels(QKV_NAME)) != ACLNN_SUCCESS) {
        return status;
    }
    return give_kernel(handles, tensors, &attributes, device, workspaceSize, executor);
}
