/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 3 to 9 of the decision table (phase1_revision_a.md, fused operator): each argument by itself. */
#include "core/message.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_a/checks.h"
#include "opdev/op_errno.h"

static const qkv_tensor arguments[] = {
    QKV,           Q_GAMMA,         K_GAMMA,  COS_SIN,  SLOT_MAPPING, K_CACHE, V_CACHE,
    K_SCALE_CACHE, QUERY_START_LOC, SEQ_LENS, ROTATION, V_SCALE,      Q_OUT,   Q_SCALE,
};
_Static_assert(sizeof arguments / sizeof arguments[0] == ARGUMENTS, "all of them");

const qkv_order in_order = {arguments, ARGUMENTS};

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

/* Rows 5 to 9. */
static aclnnStatus check_attributes(qkv_attributes *attributes)
{
    const aclnnStatus status = qkv_check_head_counts(attributes);

    if (status != ACLNN_SUCCESS) {
        return status;
    }
    if (attributes->heads[V_HEADS] != attributes->heads[K_HEADS]) {
        sim_message_solution(BAD_VALUE, "Nv is %lld but Nk is %lld; they must be equal",
                             (long long)attributes->heads[V_HEADS], (long long)attributes->heads[K_HEADS]);
        return ACLNN_ERR_PARAM_INVALID;
    }
    return qkv_check_layouts(attributes);
}

aclnnStatus check_parameters(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    aclnnStatus status = qkv_check_empty(tensors, in_order);

    if (status == ACLNN_SUCCESS) {
        status = qkv_check_dtypes(tensors, in_order, dtypes);
    }
    return status == ACLNN_SUCCESS ? check_attributes(attributes) : status;
}
