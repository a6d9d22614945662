/* SPDX-License-Identifier: Apache-2.0 */
/* Good calls of the fused operator whose results need no arithmetic: rows of plus and minus one power of two are
   normalised to plus and minus one, which the identity leaves and quantisation turns into one code, mostly the largest;
   values of V are those of FP8 codes. */
#include <math.h>
#include <string.h>
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "fuzz.h"
#include "revision.h"

typedef qkv_sizes sizes;

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

static void make(world *w, const sizes *z, tensor t[QKV_TENSORS])
{
    wanted of[QKV_TENSORS];
    qkv_wants(z, of);
    memset(t, 0, QKV_TENSORS * sizeof *t);
    for (int i = 0; i < QKV_TENSORS; i++) {
        if (of[i].rank == 0) {
            continue;
        }
        if (i == Q_OUT || i == Q_SCALE) { /* the kernel takes outputs for dense */
            tensor_dense(w, &t[i], of[i].dtype, of[i].rank, of[i].dims);
        } else {
            tensor_make(w, &t[i], of[i].dtype, of[i].rank, of[i].dims, i == V_CACHE ? &t[K_CACHE] : NULL);
        }
    }
}

static void set_constants(const sizes *z, tensor t[QKV_TENSORS])
{
    for (int64_t i = 0; i < D; i++) {
        put_float(tensor_at(&t[Q_GAMMA], i, 0, 0, 0), 1);
        put_float(tensor_at(&t[K_GAMMA], i, 0, 0, 0), 1);
        for (int64_t j = 0; j < D && z->scene != MX; j++) {
            put_bf16(tensor_at(&t[ROTATION], i, j, 0, 0), i == j ? 1 : 0);
        }
        for (int64_t row = 0; row < z->rows; row++) {
            put_float(tensor_at(&t[COS_SIN], row, i, 0, 0), i < D / 2 ? 1 : 0);
        }
    }
    for (int64_t head = 0; head < z->k; head++) {
        for (int64_t i = 0; i < (z->scene == ROPE ? 1 : D); i++) {
            put_float(tensor_at(&t[V_SCALE], head, i, 0, 0), 1);
        }
    }
}

/* Rows of the table are all the same. */
static void set_positions(world *w, const sizes *z, tensor t[QKV_TENSORS])
{
    if (z->scene != ROPE) {
        for (int64_t i = 0; i < 3 * z->tokens; i++) {
            const int32_t position = (int32_t)between(w, 0, z->rows - 1);
            memcpy(tensor_at(&t[POSITION], i / 3, i % 3, 0, 0), &position, 4);
        }
        return;
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
    uint8_t codes[16][24][D]; /* of each token and head; of Q and K the signs */
    int32_t slots[16];
} values;

static void choose(world *w, const sizes *z, tensor t[QKV_TENSORS], values *v)
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
                *code = !is_value ? *code & 0x80 : (*code & 0x7F) == 0x7F ? 0 : *code;
                put_bf16(input(z, &t[QKV], token, head, i), is_value ? of_fp8(*code) : *code & 0x80 ? -size : size);
            }
        }
    }
}

/* Plus and minus one. */
static void put_row(int scene, bool is_q, uint8_t *to, const uint8_t signs[D])
{
    for (int i = 0; i < D; i++) {
        if (scene == MROPE && is_q) {
            put_bf16(to + 2 * i, signs[i] != 0 ? -1 : 1);
        } else if (scene == MROPE) {
            to[i] = (uint8_t)(signs[i] != 0 ? -127 : 127);
        } else {
            to[i] = (uint8_t)((scene == ROPE ? 0x7E : 0x78) | signs[i]); /* 448, 256 */
        }
    }
}

static void put_scale(int scene, uint8_t *to)
{
    if (scene == MX) {
        memset(to, 127 - 8, 4); /* 2^-8 for each 32 channels */
    } else {
        put_float(to, 1.0F / (scene == ROPE ? 448.0F : 127.0F));
    }
}

static void expect(const sizes *z, tensor t[QKV_TENSORS], const values *v)
{
    for (int64_t token = 0; token < z->tokens; token++) {
        const int64_t block = v->slots[token] / z->block_size;
        const int64_t offset = v->slots[token] % z->block_size;
        for (int64_t head = 0; head < z->q; head++) {
            const int64_t i = z->tnd_out ? token : head;
            const int64_t j = z->tnd_out ? head : token;
            put_row(z->scene, true, tensor_at(&t[Q_OUT], i, j, 0, 0), v->codes[token][head]);
            if (z->scene != MROPE) {
                put_scale(z->scene, tensor_at(&t[Q_SCALE], i, j, 0, 0));
            }
        }
        for (int64_t head = 0; head < z->k; head++) {
            put_row(z->scene, false, tensor_at(&t[K_CACHE], block, head, offset, 0), v->codes[token][z->q + head]);
            memcpy(tensor_at(&t[V_CACHE], block, head, offset, 0), v->codes[token][z->q + z->k + head], D);
            put_scale(z->scene, tensor_at(&t[K_SCALE_CACHE], block, head, offset, 0));
        }
    }
}

static sizes choose_sizes(world *w)
{
    sizes z = {.scene = (int)below(w, SCENES), .batches = 1};
    z.k = between(w, 1, REVISION == 'A' ? 4 : 2);
    z.q = REVISION == 'A' ? between(w, 1, 16) : 8 * z.k;
    z.blocks = between(w, 1, 3);
    z.block_size = between(w, 1, 5);
    z.tokens = between(w, 1, z.blocks * z.block_size);
    z.rows = z.tokens + between(w, 0, 3);
    z.tnd_in = z.scene != ROPE || one_in(w, 2);
    z.tnd_out = z.scene != ROPE || (z.tnd_in && one_in(w, 2));
    return z;
}

void good_qkv_step(world *w)
{
    static const int64_t section[3] = {24, 20, 20};
    tensor t[QKV_TENSORS];
    aclTensor *handles[QKV_TENSORS];
    values v;
    const int s = (int)below(w, STREAMS);
    const sizes z = choose_sizes(w);
    memory_room(w, QKV_TENSORS);
    make(w, &z, t);
    set_constants(&z, t);
    set_positions(w, &z, t);
    choose(w, &z, t, &v);
    tensors_publish(w, t, QKV_TENSORS, s);
    for (int i = 0; i < QKV_TENSORS; i++) {
        handles[i] = t[i].handle;
    }
    const int64_t counts[3] = {z.q, z.k, z.k};
    aclIntArray *heads = aclCreateIntArray(counts, 3);
    aclIntArray *turns = aclCreateIntArray(section, 3);
    const qkv_options options = {heads, z.tnd_in ? "TND" : "NTD", z.tnd_out ? "TND" : "NTD", 0,
                                 z.scene == ROPE ? NULL : turns, qkv_modes[z.scene][0], qkv_modes[z.scene][1]};
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    GOOD(w, qkv_phase1(handles, &options, &bytes, &executor));
    launch_good(w, aclnnQkvRmsNormRopeCacheWithKScale, bytes, executor, s);
    expect(&z, t, &v);
    GOOD(w, aclDestroyIntArray(heads));
    GOOD(w, aclDestroyIntArray(turns));
    tensors_drop(w, t, QKV_TENSORS);
}
