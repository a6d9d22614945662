/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1 of the fused operator in revision B: the decision table of phase1_revision_b.md in its order. */
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "core/export.h"
#include "core/faults.h"
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/rev_b/checks.h"
#include "opdev/op_errno.h"

/* Row 2: what every scene needs; the head counts come between the last input and the output. */
static aclnnStatus check_pointers(const void *const handles[QKV_TENSORS], const void *head_nums)
{
    static const qkv_tensor needed[] = {QKV,     Q_GAMMA,       K_GAMMA,  COS_SIN, SLOT_MAPPING, K_CACHE,
                                        V_CACHE, K_SCALE_CACHE, ROTATION, V_SCALE, Q_OUT};

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        if (needed[i] == Q_OUT && head_nums == NULL) {
            return qkv_null_pointer("headNums");
        }
        if (handles[needed[i]] == NULL) {
            return qkv_null_pointer(qkv_names[needed[i]]);
        }
    }
    return ACLNN_SUCCESS;
}

/* Row 32: unlike revision A this one is known to refuse views that begin in front of their storage. */
static aclnnStatus check_views(const sim_tensor *const tensors[QKV_TENSORS])
{
    const aclnnStatus status = qkv_check_offsets(tensors);

    return status == ACLNN_SUCCESS ? qkv_check_views(tensors) : status;
}

static aclnnStatus check(const char *function, const sim_tensor *const tensors[QKV_TENSORS],
                         qkv_attributes *attributes, int32_t *device)
{
    aclnnStatus status = check_scene(tensors, attributes);

    if (status != ACLNN_SUCCESS || (status = check_parameters(tensors, attributes)) != ACLNN_SUCCESS ||
        (status = check_shapes(tensors, attributes)) != ACLNN_SUCCESS ||
        (status = qkv_check_formats(tensors, in_order)) != ACLNN_SUCCESS ||
        (status = qkv_check_copies(tensors)) != ACLNN_SUCCESS || (status = check_views(tensors)) != ACLNN_SUCCESS) {
        return status;
    }
    return op_check_device(function, device);
}

SIM_EXPORT aclnnStatus aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cosSin,
    const aclTensor *slotMapping, aclTensor *kCacheRef, aclTensor *vCacheRef, aclTensor *kScaleCacheRef,
    const aclTensor *queryStartLocOptional, const aclTensor *seqLensOptional, const aclTensor *rotationOptional,
    const aclTensor *vScaleOptional, const aclTensor *mropePositionOptional, const aclIntArray *headNums,
    const char *layoutQkv, const char *layoutQOut, float epsilon, const aclIntArray *mropeSectionOptional,
    const char *qQuantMode, aclTensor *qOut, aclTensor *qScaleOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor)
{
    SIM_CALL_SCRIBBLING(op_scribble(workspaceSize, executor), aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
        qkv, qGamma, kGamma, cosSin, slotMapping, kCacheRef, vCacheRef, kScaleCacheRef, queryStartLocOptional,
        seqLensOptional, rotationOptional, vScaleOptional, mropePositionOptional, headNums, layoutQkv, layoutQOut,
        epsilon, mropeSectionOptional, qQuantMode, qOut, qScaleOptional, workspaceSize, executor));
    const void *const handles[QKV_TENSORS] = {
        [QKV] = qkv,
        [Q_GAMMA] = qGamma,
        [K_GAMMA] = kGamma,
        [COS_SIN] = cosSin,
        [SLOT_MAPPING] = slotMapping,
        [K_CACHE] = kCacheRef,
        [V_CACHE] = vCacheRef,
        [K_SCALE_CACHE] = kScaleCacheRef,
        [QUERY_START_LOC] = queryStartLocOptional,
        [SEQ_LENS] = seqLensOptional,
        [ROTATION] = rotationOptional,
        [V_SCALE] = vScaleOptional,
        [Q_OUT] = qOut,
        [Q_SCALE] = qScaleOptional,
        [MROPE_POSITION] = mropePositionOptional,
    };
    qkv_attributes attributes = {
        .layout_text_in = layoutQkv,
        .layout_text_out = layoutQOut,
        .q_mode = qQuantMode,
        .epsilon = epsilon,
    };
    const sim_tensor *tensors[QKV_TENSORS];
    int32_t device;
    aclnnStatus status = op_check_outputs(__func__, workspaceSize, executor);

    if (status != ACLNN_SUCCESS || (status = check_pointers(handles, headNums)) != ACLNN_SUCCESS ||
        (status = op_read_tensors(__func__, handles, QKV_TENSORS, tensors)) != ACLNN_SUCCESS ||
        (status = qkv_read_lists(__func__, headNums, mropeSectionOptional, &attributes)) != ACLNN_SUCCESS ||
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
