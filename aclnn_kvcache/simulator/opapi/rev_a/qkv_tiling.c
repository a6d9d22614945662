/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 21 to 25 of the decision table (phase1_revision_a.md, fused operator). A failure happens one layer further in
   than the operator's own checks, so it carries a trace, another status and other names for the caches. */
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_a/checks.h"
#include "opdev/op_errno.h"

enum { MOST_ROTATED_HEADS = 128, MOST_HEADS = 160 };

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

aclnnStatus check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    static const int64_t least[] = {1, 1, 1};
    const bool is_good = has_rows(tensors[COS_SIN]) && qkv_check_strides(tensors[K_CACHE], "kCache", least) &&
                         qkv_check_strides(tensors[V_CACHE], "vCache", least) &&
                         qkv_share_strides(tensors[K_CACHE], tensors[V_CACHE]) &&
                         qkv_check_strides(tensors[K_SCALE_CACHE], "kScaleCache", least) &&
                         fit_core(attributes->heads);

    return is_good ? ACLNN_SUCCESS : op_tiling_failed(QKV_NAME);
}
