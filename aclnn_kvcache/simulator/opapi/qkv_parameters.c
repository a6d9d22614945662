/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 3 to 9 of the decision table (phase1_revision_a.md, fused operator): each argument by itself. */
#include <string.h>

#include "core/message.h"
#include "opapi/op_dtype.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv.h"
#include "opapi/qkv_messages.h"
#include "opdev/op_errno.h"

const char *const qkv_names[QKV_TENSORS] = {
    "qkv",       "qGamma",         "kGamma",        "cosSin",  "slotMapping",      "kCacheRef",      "vCacheRef",
    "kScaleCacheRef", "queryStartLoc", "seqLens", "rotationOptional", "vScaleOptional", "qOut", "qScale",
};

/* Row 4. */
static const int dtypes[QKV_TENSORS] = {
    [QKV] = ACL_BF16,
    [Q_GAMMA] = ACL_FLOAT,
    [K_GAMMA] = ACL_FLOAT,
    [COS_SIN] = ACL_FLOAT,
    [SLOT_MAPPING] = ACL_INT32,
    [K_CACHE] = ACL_FLOAT8_E4M3FN,
    [V_CACHE] = ACL_FLOAT8_E4M3FN,
    [K_SCALE_CACHE] = ACL_FLOAT,
    [QUERY_START_LOC] = ACL_INT32,
    [SEQ_LENS] = ACL_INT32,
    [ROTATION] = ACL_BF16,
    [V_SCALE] = ACL_FLOAT,
    [Q_OUT] = ACL_FLOAT8_E4M3FN,
    [Q_SCALE] = ACL_FLOAT,
};

static aclnnStatus check_empty(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    (void)attributes;
    for (int i = 0; i < QKV_TENSORS; i++) {
        if (op_tensor_is_empty(tensors[i])) {
            sim_message_solution(BAD_VALUE, "%s is empty", qkv_names[i]);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus check_dtypes(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    (void)attributes;
    for (int i = 0; i < QKV_TENSORS; i++) {
        const aclDataType needed = (aclDataType)dtypes[i];
        if (tensors[i]->dtype != needed) {
            sim_message_solution(BAD_DTYPE, "%s has data type %s but needs %s", qkv_names[i],
                                 op_dtype_name(tensors[i]->dtype), op_dtype_name(needed));
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

/* Rows 5 to 7. */
static aclnnStatus check_heads(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    (void)tensors;
    if (attributes->head_nums_length != HEAD_KINDS) {
        sim_message_solution(BAD_LENGTH, "headNums has %llu entries but needs %d",
                             (unsigned long long)attributes->head_nums_length, HEAD_KINDS);
        return ACLNN_ERR_PARAM_INVALID;
    }
    memcpy(attributes->heads, attributes->head_nums, sizeof attributes->heads);
    for (int kind = 0; kind < HEAD_KINDS; kind++) {
        if (attributes->heads[kind] <= 0) {
            sim_message_solution(BAD_VALUE, "headNums has the count %lld at index %d; counts are positive",
                                 (long long)attributes->heads[kind], kind);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    if (attributes->heads[V_HEADS] != attributes->heads[K_HEADS]) {
        sim_message_solution(BAD_VALUE, "Nv is %lld but Nk is %lld; they must be equal",
                             (long long)attributes->heads[V_HEADS], (long long)attributes->heads[K_HEADS]);
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

/* A missing text means the default, which differs between input and output. */
static bool read_layout(const char *text, qkv_layout by_default, qkv_layout *layout)
{
    const bool is_missing = text == NULL || text[0] == '\0';

    *layout = is_missing ? by_default : strcmp(text, "NTD") == 0 ? NTD : TND;
    return is_missing || *layout == NTD || strcmp(text, "TND") == 0;
}

static aclnnStatus check_layouts(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    (void)tensors;
    if (!read_layout(attributes->layout_text_in, TND, &attributes->layout_in)) {
        sim_message_solution(BAD_VALUE, "layout_qkv is \"%s\" but must be \"TND\" or \"NTD\"",
                             attributes->layout_text_in);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (!read_layout(attributes->layout_text_out, NTD, &attributes->layout_out)) {
        sim_message_solution(BAD_VALUE, "layout_q_out is \"%s\" but must be \"TND\" or \"NTD\"",
                             attributes->layout_text_out);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (attributes->layout_in == NTD && attributes->layout_out == TND) {
        sim_message_solution(BAD_VALUE, "layout_q_out is \"TND\", which does not go with an input in \"NTD\"");
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_check_parameters(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    aclnnStatus (*const checks[])(const sim_tensor *const *, qkv_attributes *) = {
        check_empty,
        check_dtypes,
        check_heads,
        check_layouts,
    };
    aclnnStatus status = ACLNN_SUCCESS;

    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && status == ACLNN_SUCCESS; i++) {
        status = checks[i](tensors, attributes);
    }
    return status;
}
