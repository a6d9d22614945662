/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 33 to 36 of the decision table (phase1_revision_b.md). A failure happens one layer further in than the
   operator's own checks, so it carries a trace, another status and other names for the caches. */
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_b/checks.h"
#include "opdev/op_errno.h"

/* The shapes agree by now, so that one extent stands for all of its kind. */
static bool has_extents(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    const struct {
        const char *name;
        int64_t extent;
    } extents[] = {
        {"qkv", qkv_tokens(tensors[QKV], attributes)},
        {"cosSin", tensors[COS_SIN]->dims[0]},
        {"kCache", tensors[K_CACHE]->dims[0]},
        {"kCache", tensors[K_CACHE]->dims[2]},
    };

    for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++) {
        if (extents[i].extent < 0) {
            sim_message_solution(BAD_SHAPE, "%s has a dimension of %lld", extents[i].name,
                                 (long long)extents[i].extent);
            return false;
        }
    }
    return true;
}

aclnnStatus check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    static const int64_t least[] = {1, 128, 128};
    static const int64_t least_of_scales[] = {1, 1, 1};
    const bool is_good = has_extents(tensors, attributes) && qkv_check_strides(tensors[K_CACHE], "kCache", least) &&
                         qkv_check_strides(tensors[V_CACHE], "vCache", least) &&
                         qkv_share_strides(tensors[K_CACHE], tensors[V_CACHE]) &&
                         qkv_check_strides(tensors[K_SCALE_CACHE], "kScaleCache", least_of_scales);

    return is_good ? ACLNN_SUCCESS : op_tiling_failed(QKV_NAME);
}
