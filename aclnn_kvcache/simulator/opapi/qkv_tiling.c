/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 21 to 25 of the decision table (phase1_revision_a.md, fused operator). A failure happens one layer further in
   than the operator's own checks, so it carries a trace, another status and other names for the caches. */
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/qkv.h"
#include "opapi/qkv_messages.h"
#include "opdev/op_errno.h"

enum { MOST_ROTATED_HEADS = 128, MOST_HEADS = 160 };

/* Steps of the kernel go up, and it moves whole rows. */
static bool walks(const sim_tensor *cache, const char *name)
{
    for (int axis = 0; axis < 4; axis++) {
        const int64_t stride = cache->strides[axis];
        if (axis == 3 ? stride != 1 : stride <= 0) {
            sim_message_solution(BAD_STRIDE, "stride %d of %s is %lld but must be %s", axis, name, (long long)stride,
                                 axis == 3 ? "1" : "positive");
            return false;
        }
    }
    return true;
}

/* K and V rows of a slot lie at the same offset. */
static bool share_strides(const sim_tensor *k_cache, const sim_tensor *v_cache)
{
    for (int axis = 0; axis < 3; axis++) {
        if (k_cache->strides[axis] != v_cache->strides[axis]) {
            sim_message_solution(BAD_VALUES, "stride %d of kCache and vCache must be the same but is %lld and %lld",
                                 axis, (long long)k_cache->strides[axis], (long long)v_cache->strides[axis]);
            return false;
        }
    }
    return true;
}

/* Their counts are the extent of an axis by now, but one that may be anything. */
static bool fit_core(const int64_t heads[HEAD_KINDS])
{
    const uint64_t rotated = (uint64_t)heads[Q_HEADS] + (uint64_t)heads[K_HEADS];
    const uint64_t all = rotated + (uint64_t)heads[V_HEADS];

    if ((int64_t)rotated > MOST_ROTATED_HEADS) {
        sim_message_solution(BAD_VALUE, "Nq+Nk is %lld but can be %d at the most", (long long)rotated,
                             MOST_ROTATED_HEADS);
        return false;
    }
    if ((int64_t)all > MOST_HEADS) {
        sim_message_solution(BAD_VALUE, "Nq+Nk+Nv is %lld but can be %d at the most", (long long)all, MOST_HEADS);
        return false;
    }
    return true;
}

static bool has_rows(const sim_tensor *cos_sin)
{
    if (cos_sin->dims[0] < 0) {
        sim_message_solution(BAD_SHAPE, "cosSin has %lld rows", (long long)cos_sin->dims[0]);
        return false;
    }
    return true;
}

aclnnStatus qkv_check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    const bool is_good = has_rows(tensors[COS_SIN]) && walks(tensors[K_CACHE], "kCache") &&
                         walks(tensors[V_CACHE], "vCache") && share_strides(tensors[K_CACHE], tensors[V_CACHE]) &&
                         walks(tensors[K_SCALE_CACHE], "kScaleCache") && fit_core(attributes->heads);

    return is_good ? ACLNN_SUCCESS : op_tiling_failed(QKV_NAME);
}
