/* SPDX-License-Identifier: Apache-2.0 */
/* The fused operator's phase 1 in the revision that the fuzzer is compiled for, whose header comes first. */
#include <string.h>
#include "fuzz.h"
#include "revision.h"
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"

const char *const qkv_modes[3][2] = {
    [ROPE] = {"PerTokenPerHead", "PerTokenPerHead"},
    [MROPE] = {"NoQuant", "PerTokenPerHead"},
    [MX] = {"Mx", "Mx"},
};

void qkv_wants(const qkv_sizes *z, wanted of[QKV_TENSORS])
{
    const bool is_rope = z->scene == ROPE;
    const bool is_mx = z->scene == MX;
    const int64_t heads = z->q + 2 * z->k;
    const int64_t outer = z->tnd_out ? z->tokens : z->q;
    const int64_t inner = z->tnd_out ? z->q : z->tokens;
    const aclDataType scale = is_mx ? ACL_FLOAT8_E8M0 : ACL_FLOAT;
    const wanted call[QKV_TENSORS] = {
        [QKV] = {ACL_BF16, {z->tnd_in ? z->tokens : heads, z->tnd_in ? heads : z->tokens, D}, 3},
        [Q_GAMMA] = {ACL_FLOAT, {D}, 1},
        [K_GAMMA] = {ACL_FLOAT, {D}, 1},
        [COS_SIN] = {ACL_FLOAT, {z->rows, D}, 2},
        [SLOTS] = {ACL_INT32, {z->tokens}, 1},
        [K_CACHE] = {z->scene == MROPE ? ACL_INT8 : ACL_FLOAT8_E4M3FN, {z->blocks, z->k, z->block_size, D}, 4},
        [V_CACHE] = {ACL_FLOAT8_E4M3FN, {z->blocks, z->k, z->block_size, D}, 4},
        [K_SCALE_CACHE] = {scale, {z->blocks, z->k, z->block_size, is_mx ? 4 : 1}, 4},
        [STARTS] = {ACL_INT32, {z->batches + 1}, is_rope},
        [LENGTHS] = {ACL_INT32, {z->batches}, is_rope},
        [ROTATION] = {ACL_BF16, {D, D}, is_mx ? 0 : 2},
        [V_SCALE] = {ACL_FLOAT, {z->k, D}, is_rope ? 1 : 2},
        [Q_OUT] = {z->scene == MROPE ? ACL_BF16 : ACL_FLOAT8_E4M3FN, {outer, inner, D}, 3},
        [Q_SCALE] = {scale, {outer, inner, 4}, is_rope ? 2 : is_mx ? 3 : 0},
        [POSITION] = {ACL_INT32, {z->tokens, 3}, is_rope ? 0 : 2},
    };
    memcpy(of, call, sizeof call);
}

int qkv_phase1(aclTensor *const t[QKV_TENSORS], const qkv_options *o, uint64_t *bytes, aclOpExecutor **executor)
{
    return aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
        t[QKV], t[Q_GAMMA], t[K_GAMMA], t[COS_SIN], t[SLOTS], t[K_CACHE], t[V_CACHE], t[K_SCALE_CACHE], t[STARTS],
        t[LENGTHS], t[ROTATION], t[V_SCALE],
#if REVISION > 'A'
        t[POSITION],
#endif
        o->heads, o->layout_in, o->layout_out, o->epsilon,
#if REVISION > 'A'
        o->section, o->q_mode,
#endif
#if REVISION > 'B'
        o->k_mode,
#endif
        t[Q_OUT], t[Q_SCALE], bytes, executor);
}
