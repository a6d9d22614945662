/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 9 to 18 of the decision table (phase1_revision_b.md): each argument by itself. */
#include "core/message.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_b/checks.h"
#include "opdev/op_errno.h"

enum { MOST_Q_HEADS = 64, Q_HEADS_PER_K_HEAD = 8 };

static const qkv_tensor arguments[] = {
    QKV,           Q_GAMMA,  K_GAMMA, COS_SIN, SLOT_MAPPING,   K_CACHE,         V_CACHE,
    K_SCALE_CACHE, ROTATION, V_SCALE, Q_OUT,   MROPE_POSITION, QUERY_START_LOC, SEQ_LENS, Q_SCALE,
};
const qkv_order in_order = {arguments, sizeof arguments / sizeof arguments[0]};

/* Row 10. */
#define BOTH_SCENES                                                                                                    \
    [QKV] = ACL_BF16, [Q_GAMMA] = ACL_FLOAT, [K_GAMMA] = ACL_FLOAT, [COS_SIN] = ACL_FLOAT,                             \
    [SLOT_MAPPING] = ACL_INT32, [V_CACHE] = ACL_FLOAT8_E4M3FN, [K_SCALE_CACHE] = ACL_FLOAT, [ROTATION] = ACL_BF16,     \
    [V_SCALE] = ACL_FLOAT
static const int dtypes[][QKV_TENSORS] = {
    [ROPE] = {BOTH_SCENES, [K_CACHE] = ACL_FLOAT8_E4M3FN, [Q_OUT] = ACL_FLOAT8_E4M3FN, [QUERY_START_LOC] = ACL_INT32,
              [SEQ_LENS] = ACL_INT32, [Q_SCALE] = ACL_FLOAT},
    [MROPE] = {BOTH_SCENES, [K_CACHE] = ACL_INT8, [Q_OUT] = ACL_BF16, [MROPE_POSITION] = ACL_INT32},
};

/* Rows 11 to 15. */
static aclnnStatus check_heads(qkv_attributes *attributes)
{
    const int64_t *heads = attributes->heads;
    const aclnnStatus status = qkv_check_head_counts(attributes);

    if (status != ACLNN_SUCCESS) {
        return status;
    }
    if (heads[Q_HEADS] > MOST_Q_HEADS) {
        sim_message_solution(BAD_BOUND, "Nq is %lld but can be %d at the most", (long long)heads[Q_HEADS],
                             MOST_Q_HEADS);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (heads[Q_HEADS] % Q_HEADS_PER_K_HEAD != 0 || heads[Q_HEADS] / Q_HEADS_PER_K_HEAD != heads[K_HEADS]) {
        sim_message_solution(BAD_VALUE, "Nq is %lld but Nk is %lld; there are %d to one", (long long)heads[Q_HEADS],
                             (long long)heads[K_HEADS], Q_HEADS_PER_K_HEAD);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (heads[V_HEADS] != heads[K_HEADS]) {
        sim_message_solution(BAD_VALUE, "Nv is %lld but Nk is %lld; they must be equal", (long long)heads[V_HEADS],
                             (long long)heads[K_HEADS]);
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus check_parameters(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    aclnnStatus status = qkv_check_empty(tensors, in_order);

    if (status != ACLNN_SUCCESS ||
        (status = qkv_check_dtypes(tensors, in_order, dtypes[attributes->scene])) != ACLNN_SUCCESS ||
        (status = check_heads(attributes)) != ACLNN_SUCCESS ||
        (status = qkv_check_layouts(attributes)) != ACLNN_SUCCESS) {
        return status;
    }
    if (attributes->scene == MROPE && (attributes->layout_in != TND || attributes->layout_out != TND)) {
        sim_message_solution(BAD_VALUE, "layout_qkv and layout_q_out must be \"TND\" in calls with positions");
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}
