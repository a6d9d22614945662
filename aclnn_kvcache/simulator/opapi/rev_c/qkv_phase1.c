/* SPDX-License-Identifier: Apache-2.0 */
/* Phase 1 of the fused operator in revision C: the decision table of phase1_revision_c.md in its order. */
#include <string.h>

#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "core/export.h"
#include "core/faults.h"
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_c/checks.h"
#include "opdev/op_errno.h"

/* Row 2. */
static aclnnStatus check_pointers(const void *const handles[QKV_TENSORS], const void *head_nums)
{
    static const qkv_tensor needed[] = {QKV,     Q_GAMMA,       K_GAMMA, COS_SIN, SLOT_MAPPING, K_CACHE,
                                        V_CACHE, K_SCALE_CACHE, V_SCALE, Q_OUT};

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

/* Rows 3 to 6: what modes that this layer knows ask for; others are left to shape inference. */
static aclnnStatus check_presence(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    static const char *const quantised = "PerTokenPerHead";
    const bool is_q_quantised = strcmp(attributes->q_mode, quantised) == 0;
    const bool is_q_plain = strcmp(attributes->q_mode, "NoQuant") == 0;
    const bool is_rope =
        is_q_quantised && strcmp(attributes->k_mode, quantised) == 0 && tensors[MROPE_POSITION] == NULL;

    if (is_rope && (tensors[QUERY_START_LOC] == NULL || tensors[SEQ_LENS] == NULL)) {
        return qkv_null_pointer(qkv_names[tensors[QUERY_START_LOC] == NULL ? QUERY_START_LOC : SEQ_LENS]);
    }
    if ((is_rope || is_q_plain) && tensors[ROTATION] == NULL) {
        return qkv_null_pointer(qkv_names[ROTATION]);
    }
    if (is_q_plain && tensors[Q_SCALE] != NULL) {
        sim_message_solution(BAD_VALUE, "qScaleOptional is not for a Q that is not quantised");
        return ACLNN_ERR_PARAM_INVALID;
    }
    if ((is_q_quantised || strcmp(attributes->q_mode, "Mx") == 0) && tensors[Q_SCALE] == NULL) {
        return qkv_null_pointer("qScaleOptional");
    }
    return ACLNN_SUCCESS;
}

/* Layers further in, whose failures all leave as 161002. */
static aclnnStatus inner_failed(const char *layer)
{
    sim_message_trace("%s: %s failed (%d)", QKV_NAME, layer, ACLNN_ERR_INNER);
    return ACLNN_ERR_PARAM_INVALID;
}

/* Rows 19 to 44. That a thread has a device, and the package kernels for it, is asked for where the kernel is chosen:
   the table leaves it open, for the calls that it was made from had both. */
static aclnnStatus check_kernel(const char *function, const sim_tensor *const tensors[QKV_TENSORS],
                                const qkv_attributes *attributes, int32_t *device)
{
    if (op_check_device(function, device) != ACLNN_SUCCESS || op_check_kernels(QKV_NAME) != ACLNN_SUCCESS) {
        return inner_failed("the choice of the kernel");
    }
    if (!check_tiling(tensors, attributes) || !check_strides(tensors, attributes)) {
        return inner_failed("tiling of the kernel");
    }
    return ACLNN_SUCCESS;
}

/* Rows 7 and 8. Formats are not looked at here; a private one counts as contiguous. */
static aclnnStatus check_storage(const sim_tensor *const tensors[QKV_TENSORS])
{
    aclnnStatus status = qkv_check_copies(tensors);

    if (status == ACLNN_SUCCESS) {
        status = qkv_check_offsets(tensors);
    }
    return status == ACLNN_SUCCESS ? qkv_check_views(tensors) : status;
}

SIM_EXPORT aclnnStatus aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
    const aclTensor *qkv, const aclTensor *qGamma, const aclTensor *kGamma, const aclTensor *cosSin,
    const aclTensor *slotMapping, aclTensor *kCacheRef, aclTensor *vCacheRef, aclTensor *kScaleCacheRef,
    const aclTensor *queryStartLocOptional, const aclTensor *seqLensOptional, const aclTensor *rotationOptional,
    const aclTensor *vScaleOptional, const aclTensor *mropePositionOptional, const aclIntArray *headNums,
    const char *layoutQkv, const char *layoutQOut, float epsilon, const aclIntArray *mropeSectionOptional,
    const char *qQuantMode, const char *kQuantMode, aclTensor *qOut, aclTensor *qScaleOptional, uint64_t *workspaceSize,
    aclOpExecutor **executor)
{
    SIM_CALL_SCRIBBLING(op_scribble(workspaceSize, executor), aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
        qkv, qGamma, kGamma, cosSin, slotMapping, kCacheRef, vCacheRef, kScaleCacheRef, queryStartLocOptional,
        seqLensOptional, rotationOptional, vScaleOptional, mropePositionOptional, headNums, layoutQkv, layoutQOut,
        epsilon, mropeSectionOptional, qQuantMode, kQuantMode, qOut, qScaleOptional, workspaceSize, executor));
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
        .q_mode = qkv_quant_mode(qQuantMode),
        .k_mode = qkv_quant_mode(kQuantMode),
        .epsilon = epsilon,
    };
    const sim_tensor *tensors[QKV_TENSORS];
    int32_t device;
    aclnnStatus status = op_check_outputs(__func__, workspaceSize, executor);

    if (status != ACLNN_SUCCESS || (status = check_pointers(handles, headNums)) != ACLNN_SUCCESS ||
        (status = op_read_tensors(__func__, handles, QKV_TENSORS, tensors)) != ACLNN_SUCCESS ||
        (status = qkv_read_lists(__func__, headNums, mropeSectionOptional, &attributes)) != ACLNN_SUCCESS ||
        (status = check_presence(tensors, &attributes)) != ACLNN_SUCCESS ||
        (status = check_storage(tensors)) != ACLNN_SUCCESS) {
        return status;
    }
    if (!infer(tensors, &attributes)) {
        return inner_failed("shape inference");
    }
    sim_tensor as_given[2];
    qkv_infer_outputs(handles, tensors, &attributes, as_given);
    if ((status = check_kernel(__func__, tensors, &attributes, &device)) != ACLNN_SUCCESS) {
        return status;
    }
    return qkv_give(handles, tensors, &attributes, device, workspaceSize, executor);
}
