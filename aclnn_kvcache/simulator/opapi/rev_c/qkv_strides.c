/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 39 to 44 of the decision table (phase1_revision_c.md): strides of the caches. */
#include "core/message.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_c/checks.h"

/* From the last axis outwards each stride clears all that the axes inside it span; the order of axes is fixed, so that
   a head-major view of token-major memory does not pass. Extents and strides are positive by now. */
static bool is_apart(const sim_tensor *cache)
{
    int64_t span = 1;

    for (int axis = 3; axis >= 0; axis--) {
        const int64_t extent = cache->dims[axis];
        int64_t length;
        if (extent > 1 && (cache->strides[axis] < span ||
                           __builtin_mul_overflow(extent - 1, cache->strides[axis], &length) ||
                           __builtin_add_overflow(span, length, &span))) {
            sim_message("EZ1008", "Execution_Error", "elements of a cache share memory: stride %d is %lld", axis,
                        (long long)cache->strides[axis]);
            return false;
        }
    }
    return true;
}

/* Row 44: the numbers that the message has are not what is wrong. */
static bool fits_core(const sim_tensor *k_cache, const sim_tensor *k_scale_cache)
{
    const int64_t scale_stride = k_scale_cache->strides[1];

    if (k_cache->strides[1] > (INT64_C(1) << 40) + 127 || scale_stride < 4 ||
        scale_stride > (INT64_C(1) << 32) + 3) {
        sim_message_solution(BAD_VALUES, "totalTokens and ubSize leave no room for head strides of %lld and %lld",
                             (long long)k_cache->strides[1], (long long)scale_stride);
        return false;
    }
    return true;
}

bool check_strides(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    static const int64_t least[] = {1, 128, 128};
    const bool is_mx = attributes->scene == MX;
    const int64_t least_of_scales[] = {1, 1, is_mx ? 4 : 1};
    const sim_tensor *k_cache = tensors[K_CACHE];
    const sim_tensor *v_cache = tensors[V_CACHE];
    const sim_tensor *k_scale_cache = tensors[K_SCALE_CACHE];

    return qkv_check_strides(k_cache, "kCache", least) && qkv_check_strides(v_cache, "vCache", least) &&
           qkv_share_strides(k_cache, v_cache) && is_apart(k_cache) && is_apart(v_cache) &&
           qkv_check_strides(k_scale_cache, "kScaleCache", least_of_scales) && is_apart(k_scale_cache) &&
           (!is_mx || fits_core(k_cache, k_scale_cache));
}
