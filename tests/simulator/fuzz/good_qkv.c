/* SPDX-License-Identifier: Apache-2.0 */
/* Good calls of the fused operator whose results need no arithmetic: rows of plus and minus one power of two are
   normalised to plus and minus one, which the identity leaves and quantisation turns into the largest codes; values of V
   are those of FP8 codes. */
#include <math.h>
#include <string.h>
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "fuzz.h"

enum { QKV, Q_GAMMA, K_GAMMA, COS_SIN, SLOTS, K_CACHE, V_CACHE, K_SCALE_CACHE, STARTS, LENGTHS, ROTATION, V_SCALE, Q_OUT,
       Q_SCALE, TENSORS };
enum { D = 128 };

static const uint8_t largest = 0x7E; /* 448 */

typedef struct {
    int64_t tokens, q, k, blocks, block_size, rows;
    bool tnd_in, tnd_out;
} sizes;

static void put_float(uint8_t *to, float value)
{
    memcpy(to, &value, sizeof value);
}

static void put_bf16(uint8_t *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t high = (uint16_t)(bits >> 16);
    memcpy(to, &high, sizeof high);
}

static float of_fp8(uint8_t code)
{
    const int exponent = code >> 3 & 15;
    const int fraction = code & 7;
    const float size = exponent == 0 ? ldexpf((float)fraction, -9) : ldexpf((float)(8 + fraction), exponent - 10);
    return code & 0x80 ? -size : size;
}

static void make(world *w, const sizes *z, tensor t[TENSORS])
{
    const int64_t t_in = z->tokens;
    const int64_t heads = z->q + 2 * z->k;
    const struct {
        aclDataType dtype;
        uint64_t rank;
        int64_t dims[4];
    } of[TENSORS] = {
        [QKV] = {ACL_BF16, 3, {z->tnd_in ? t_in : heads, z->tnd_in ? heads : t_in, D}},
        [Q_GAMMA] = {ACL_FLOAT, 1, {D}},
        [K_GAMMA] = {ACL_FLOAT, 1, {D}},
        [COS_SIN] = {ACL_FLOAT, 2, {z->rows, D}},
        [SLOTS] = {ACL_INT32, 1, {t_in}},
        [K_CACHE] = {ACL_FLOAT8_E4M3FN, 4, {z->blocks, z->k, z->block_size, D}},
        [V_CACHE] = {ACL_FLOAT8_E4M3FN, 4, {z->blocks, z->k, z->block_size, D}},
        [K_SCALE_CACHE] = {ACL_FLOAT, 4, {z->blocks, z->k, z->block_size, 1}},
        [STARTS] = {ACL_INT32, 1, {2}},
        [LENGTHS] = {ACL_INT32, 1, {1}},
        [ROTATION] = {ACL_BF16, 2, {D, D}},
        [V_SCALE] = {ACL_FLOAT, 1, {z->k}},
        [Q_OUT] = {ACL_FLOAT8_E4M3FN, 3, {z->tnd_out ? t_in : z->q, z->tnd_out ? z->q : t_in, D}},
        [Q_SCALE] = {ACL_FLOAT, 2, {z->tnd_out ? t_in : z->q, z->tnd_out ? z->q : t_in}},
    };
    for (int i = 0; i < TENSORS; i++) {
        if (i >= Q_OUT) { /* the kernel takes outputs for dense */
            tensor_dense(w, &t[i], of[i].dtype, of[i].rank, of[i].dims);
        } else {
            tensor_make(w, &t[i], of[i].dtype, of[i].rank, of[i].dims, i == V_CACHE ? &t[K_CACHE] : NULL);
        }
    }
}

static void set_constants(const sizes *z, tensor t[TENSORS])
{
    for (int64_t i = 0; i < D; i++) {
        put_float(tensor_at(&t[Q_GAMMA], i, 0, 0, 0), 1);
        put_float(tensor_at(&t[K_GAMMA], i, 0, 0, 0), 1);
        for (int64_t j = 0; j < D; j++) {
            put_bf16(tensor_at(&t[ROTATION], i, j, 0, 0), i == j ? 1 : 0);
        }
        for (int64_t row = 0; row < z->rows; row++) {
            put_float(tensor_at(&t[COS_SIN], row, i, 0, 0), i < D / 2 ? 1 : 0);
        }
    }
    for (int64_t head = 0; head < z->k; head++) {
        put_float(tensor_at(&t[V_SCALE], head, 0, 0, 0), 1);
    }
    const int32_t ends[2] = {0, (int32_t)z->tokens};
    memcpy(tensor_at(&t[STARTS], 0, 0, 0, 0), &ends[0], 4);
    memcpy(tensor_at(&t[STARTS], 1, 0, 0, 0), &ends[1], 4);
    const int32_t length = (int32_t)z->rows;
    memcpy(tensor_at(&t[LENGTHS], 0, 0, 0, 0), &length, 4);
}

static uint8_t *input(const sizes *z, const tensor *qkv, int64_t token, int64_t head, int64_t i)
{
    return z->tnd_in ? tensor_at(qkv, token, head, i, 0) : tensor_at(qkv, head, token, i, 0);
}

typedef struct {
    uint8_t codes[16][24][D]; /* of each token and head */
    int32_t slots[16];
} values;

static void choose(world *w, const sizes *z, tensor t[TENSORS], values *v)
{
    const int64_t limit = z->blocks * z->block_size;
    const int64_t first = between(w, 0, limit - 1);
    for (int64_t token = 0; token < z->tokens; token++) {
        v->slots[token] = (int32_t)((first + token) % limit);
        memcpy(tensor_at(&t[SLOTS], token, 0, 0, 0), &v->slots[token], 4);
        for (int64_t head = 0; head < z->q + 2 * z->k; head++) {
            const float size = ldexpf(1, (int)between(w, -8, 8));
            for (int64_t i = 0; i < D; i++) {
                uint8_t *code = &v->codes[token][head][i];
                const bool is_value = head >= z->q + z->k;
                *code = (uint8_t)any_bits(w);
                *code = !is_value ? (uint8_t)(largest | (*code & 0x80)) : (*code & 0x7F) == 0x7F ? 0 : *code;
                put_bf16(input(z, &t[QKV], token, head, i), is_value ? of_fp8(*code) : *code & 0x80 ? -size : size);
            }
        }
    }
}

static void expect(const sizes *z, tensor t[TENSORS], const values *v)
{
    const float scale = 1.0F / 448.0F;
    for (int64_t token = 0; token < z->tokens; token++) {
        const int64_t block = v->slots[token] / z->block_size;
        const int64_t offset = v->slots[token] % z->block_size;
        for (int64_t head = 0; head < z->q; head++) {
            const int64_t i = z->tnd_out ? token : head;
            const int64_t j = z->tnd_out ? head : token;
            memcpy(tensor_at(&t[Q_OUT], i, j, 0, 0), v->codes[token][head], D);
            put_float(tensor_at(&t[Q_SCALE], i, j, 0, 0), scale);
        }
        for (int64_t head = 0; head < z->k; head++) {
            memcpy(tensor_at(&t[K_CACHE], block, head, offset, 0), v->codes[token][z->q + head], D);
            memcpy(tensor_at(&t[V_CACHE], block, head, offset, 0), v->codes[token][z->q + z->k + head], D);
            put_float(tensor_at(&t[K_SCALE_CACHE], block, head, offset, 0), scale);
        }
    }
}

void good_qkv_step(world *w)
{
    tensor t[TENSORS];
    values v;
    const int s = (int)below(w, STREAMS);
    sizes z = {0, between(w, 1, 16), between(w, 1, 4), between(w, 1, 3), between(w, 1, 5), 0, false, false};
    z.tokens = between(w, 1, z.blocks * z.block_size);
    z.rows = z.tokens + between(w, 0, 3);
    z.tnd_in = one_in(w, 2);
    z.tnd_out = z.tnd_in && one_in(w, 2);
    memory_room(w, TENSORS);
    make(w, &z, t);
    set_constants(&z, t);
    choose(w, &z, t, &v);
    tensors_publish(w, t, TENSORS, s);
    const int64_t counts[3] = {z.q, z.k, z.k};
    aclIntArray *heads = aclCreateIntArray(counts, 3);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    GOOD(w, aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(
                t[QKV].handle, t[Q_GAMMA].handle, t[K_GAMMA].handle, t[COS_SIN].handle, t[SLOTS].handle,
                t[K_CACHE].handle, t[V_CACHE].handle, t[K_SCALE_CACHE].handle, t[STARTS].handle, t[LENGTHS].handle,
                t[ROTATION].handle, t[V_SCALE].handle, heads, z.tnd_in ? "TND" : "NTD", z.tnd_out ? "TND" : "NTD", 0,
                t[Q_OUT].handle, t[Q_SCALE].handle, &bytes, &executor));
    launch_good(w, aclnnQkvRmsNormRopeCacheWithKScale, bytes, executor, s);
    expect(&z, t, &v);
    GOOD(w, aclDestroyIntArray(heads));
    tensors_drop(w, t, TENSORS);
}
