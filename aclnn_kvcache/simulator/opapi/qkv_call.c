/* SPDX-License-Identifier: Apache-2.0 */
/* The ends of every first phase: what comes in, and the executor that goes out. */
#include <string.h>

#include "core/checks.h"
#include "core/handle.h"
#include "core/message.h"
#include "opapi/op_executor.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv_messages.h"
#include "opapi/qkv_phase1.h"
#include "opapi/qkv_rows.h"
#include "opdev/op_errno.h"

/* What the library itself asks for (observed.md). */
static const uint64_t library_bytes = 33554944;

const char *const qkv_names[QKV_TENSORS] = {
    "qkv",       "qGamma",         "kGamma",        "cosSin",  "slotMapping",      "kCacheRef",      "vCacheRef",
    "kScaleCacheRef", "queryStartLoc", "seqLens", "rotationOptional", "vScaleOptional", "qOut", "qScale",
    "mropePositionOptional",
};

aclnnStatus qkv_null_pointer(const char *name)
{
    sim_message_solution(BAD_VALUE, "%s is nullptr", name);
    return ACLNN_ERR_PARAM_NULLPTR;
}

int64_t qkv_tokens(const sim_tensor *qkv, const qkv_attributes *attributes)
{
    return qkv->dims[attributes->layout_in == TND ? 0 : 1];
}

static void infer_shape(const void *handle, uint64_t rank, const int64_t *dims)
{
    sim_tensor *tensor = handle == NULL ? NULL : sim_handle_get(SIM_TENSOR, handle);

    if (tensor != NULL) {
        tensor->rank = rank;
        memcpy(tensor->dims, dims, rank * sizeof *dims);
        sim_dense_strides(tensor, tensor->strides);
        tensor->storage_rank = rank;
        memcpy(tensor->storage_dims, tensor->dims, sizeof tensor->dims);
    }
}

/* The kernel writes its outputs as if they were dense (observed.md, Not checked). */
static void report_strides(qkv_tensor output, const sim_tensor *given)
{
    if (!qkv_is_private(given) && !op_tensor_is_empty(given) && !op_tensor_is_contiguous(given)) {
        sim_report(SIM_CHECK_API, "strides_ignored", QKV_NAME "GetWorkspaceSize",
                   "tensor %s has gaps between its elements or another order, and the kernel writes it as if it were "
                   "dense: pass a dense one, and copy from there",
                   qkv_names[output]);
    }
}

void qkv_infer_outputs(const void *const handles[QKV_TENSORS], const sim_tensor *tensors[QKV_TENSORS],
                       const qkv_attributes *attributes, sim_tensor as_given[2])
{
    const int64_t tokens = qkv_tokens(tensors[QKV], attributes);
    const int64_t heads = attributes->heads[Q_HEADS];
    const bool is_token_major = attributes->layout_out == TND;
    const int64_t outer = is_token_major ? tokens : heads;
    const int64_t inner = is_token_major ? heads : tokens;
    const bool has_blocks = attributes->scene == MX;

    for (int i = 0; i < 2; i++) {
        const qkv_tensor output = i == 0 ? Q_OUT : Q_SCALE;
        if (tensors[output] != NULL) {
            as_given[i] = *tensors[output];
            report_strides(output, &as_given[i]);
            tensors[output] = &as_given[i];
        }
    }
    infer_shape(handles[Q_OUT], 3, (int64_t[]){outer, inner, HEAD_SIZE});
    infer_shape(handles[Q_SCALE], has_blocks ? 3 : 2, (int64_t[]){outer, inner, HEAD_SIZE / MX_BLOCK});
}

/* Everything but the caches and the outputs. */
static bool is_input(qkv_tensor tensor)
{
    return tensor < K_CACHE || (tensor > K_SCALE_CACHE && tensor != Q_OUT && tensor != Q_SCALE);
}

/* A private format counts as contiguous (phase1_revision_b.md, To be copied). */
static bool is_copied(const sim_tensor *const tensors[QKV_TENSORS], int index)
{
    const sim_tensor *tensor = tensors[index];

    return tensor != NULL && is_input((qkv_tensor)index) && !qkv_is_private(tensor) && !op_tensor_is_contiguous(tensor);
}

static uint64_t rounded_up(uint64_t bytes)
{
    return (bytes + 511) / 512 * 512;
}

/* M-RoPE keeps the scales of Q, which it was not given a tensor for (phase1_revision_b.md, Workspace). */
static uint64_t stage(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes,
                      qkv_details *details)
{
    const uint64_t scales =
        (uint64_t)qkv_tokens(tensors[QKV], attributes) * (uint64_t)attributes->heads[Q_HEADS] * sizeof(float);
    uint64_t end = library_bytes + (attributes->scene == MROPE ? rounded_up(scales + 32) : 0);

    for (int i = 0; i < QKV_TENSORS; i++) {
        details->staged_at[i] = tensors[i] == NULL ? QKV_ABSENT : NOT_STAGED;
        if (is_copied(tensors, i)) {
            end = op_stage_reserve(tensors[i], end, &details->staged_at[i]);
        }
    }
    return end;
}

aclnnStatus qkv_check_copies(const sim_tensor *const tensors[QKV_TENSORS])
{
    for (int i = 0; i < QKV_TENSORS; i++) {
        if (is_copied(tensors, i) && op_tensor_leaves_storage(tensors[i])) {
            sim_message("EZ1001", "AclNN_Parameter_Error", "input %d reaches outside its storage of %lld elements", i,
                        (long long)op_tensor_storage_elements(tensors[i]));
            return ACLNN_ERR_INNER_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_give(const void *const handles[QKV_TENSORS], const sim_tensor *const tensors[QKV_TENSORS],
                     const qkv_attributes *attributes, int32_t device, uint64_t *workspace_size,
                     aclOpExecutor **executor)
{
    qkv_details details;
    memset(&details, 0, sizeof details); /* gaps too: it is compared as it stands */
    details.scene = attributes->scene;
    details.layout_in = attributes->layout_in;
    details.layout_out = attributes->layout_out;
    details.epsilon = attributes->epsilon;
    for (int kind = 0; kind < HEAD_KINDS; kind++) {
        details.heads[kind] = (uint64_t)attributes->heads[kind];
    }
    for (int axis = 0; axis < POSITION_AXES && attributes->section_length != 0; axis++) {
        details.section[axis] = (uint64_t)attributes->section[axis];
    }
    const uint64_t workspace_bytes = stage(tensors, attributes, &details);
    const op_call call = {
        .function = QKV_NAME "GetWorkspaceSize",
        .kernel = &qkv_kernel,
        .workspace_bytes = workspace_bytes,
        .details = &details,
        .details_bytes = sizeof details,
        .handles = handles,
        .tensors = tensors,
        .tensor_count = QKV_TENSORS,
        .attributes = &details,
        .attribute_bytes = sizeof details,
        .device = device,
    };

    return op_executor_give(&call, workspace_size, executor);
}
