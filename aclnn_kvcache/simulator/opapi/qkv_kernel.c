/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel: all rows of Q, K and V through their arithmetic and to their places. Addresses are computed with 64
   unsigned bits that wrap, and nothing about slots or positions is checked: what lands in live memory is moved there
   (qkv_rms_norm_rope_cache_with_k_scale.md, 2.5). */
#include <stdlib.h>

#include "opapi/bf16.h"
#include "opapi/device_check.h"
#include "opapi/device_copy.h"
#include "opapi/op_duplicates.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv_rows.h"
#include "opapi/qkv_work.h"

/* Where the heads of a token go in a tensor: address of the first one's row and bytes between heads. */
typedef device_run (*token_place)(const qkv_work *work, qkv_tensor tensor, uint64_t token);

/* Outputs are written as if they were dense, whatever their strides (observed.md, Not checked). */
static device_run output_place(const qkv_work *work, qkv_tensor tensor, uint64_t token)
{
    const uint64_t row_bytes = tensor == Q_OUT ? HEAD_SIZE : sizeof(float);
    const bool is_token_major = work->details->layout_out == TND;
    const uint64_t token_rows = is_token_major ? work->details->heads[Q_HEADS] : 1;
    const uint64_t head_rows = is_token_major ? 1 : work->tokens;

    return (device_run){&work->places[tensor], work->places[tensor].start + token * token_rows * row_bytes, head_rows * row_bytes};
}

/* A slot is widened to unsigned by its sign, so that -1 is the last row of "block -1". */
static device_run cache_place(const qkv_work *work, qkv_tensor tensor, uint64_t token)
{
    const op_operand_place *cache = &work->places[tensor];
    const uint64_t block_size = (uint64_t)work->tensors[K_CACHE].dims[2];
    const uint64_t slot = (uint64_t)work->slots[token];
    const uint64_t offset = slot / block_size * cache->strides[0] + slot % block_size * cache->strides[2];

    return (device_run){cache, cache->start + offset * cache->item_bytes, cache->strides[1] * cache->item_bytes};
}

static bool read_floats(const op_operand_place *of, uint64_t address, float *values, uint64_t count)
{
    return device_read(of, address, values, count * sizeof *values);
}

/* BF16 values as floats, a row's worth. */
static bool read_row(const op_operand_place *of, uint64_t address, float row[HEAD_SIZE])
{
    uint16_t codes[HEAD_SIZE];

    if (!device_read(of, address, codes, sizeof codes)) {
        return false;
    }
    for (int i = 0; i < HEAD_SIZE; i++) {
        row[i] = bf16_to_float(codes[i]);
    }
    return true;
}

/* One of the rows of a token, counted over all heads of Q, K and V. */
static bool read_head(const qkv_work *work, uint64_t token, uint64_t head, float row[HEAD_SIZE])
{
    const uint64_t *heads = work->details->heads;
    const uint64_t all = heads[Q_HEADS] + heads[K_HEADS] + heads[V_HEADS];
    const uint64_t index = work->details->layout_in == TND ? token * all + head : head * work->tokens + token;

    return read_row(&work->places[QKV], work->places[QKV].start + index * HEAD_SIZE * sizeof(uint16_t), row);
}

/* Q and K differ in where their rows come from and go to. */
typedef struct {
    qkv_heads kind;
    qkv_tensor gamma;
    qkv_tensor codes;
    qkv_tensor scales;
    token_place place;
    token_order order;
} rotated_part;

static const rotated_part q_part = {Q_HEADS, Q_GAMMA, Q_OUT, Q_SCALE, output_place, even_tokens_first};
static const rotated_part k_part = {K_HEADS, K_GAMMA, K_CACHE, K_SCALE_CACHE, cache_place, odd_tokens_first};

static bool rotate_token(const qkv_work *work, const rotated_part *part, const float gamma[HEAD_SIZE], uint64_t token)
{
    const uint64_t first_head = part->kind == Q_HEADS ? 0 : work->details->heads[Q_HEADS];
    const device_run codes_to = part->place(work, part->codes, token);
    const device_run scales_to = part->place(work, part->scales, token);
    const op_operand_place *cos_sin_at = &work->places[COS_SIN];
    float cos_sin[HEAD_SIZE];

    device_at_token(token, "position", (int64_t)work->positions[token]);
    if (!read_floats(cos_sin_at, cos_sin_at->start + work->positions[token] * sizeof cos_sin, cos_sin, HEAD_SIZE)) {
        return false;
    }
    device_at_token(token, "slot", work->slots[token]);
    for (uint64_t head = 0; head < work->details->heads[part->kind]; head++) {
        float row[HEAD_SIZE];
        uint8_t codes[HEAD_SIZE];
        if (!read_head(work, token, first_head + head, row)) {
            return false;
        }
        qkv_normalise(row, gamma, work->details->epsilon);
        qkv_turn(row, cos_sin);
        qkv_rotate(row, work->rotation);
        const float scale = qkv_quantise(row, codes);
        if (!device_write(codes_to.of, codes_to.address + head * codes_to.step, codes, sizeof codes) ||
            !device_write(scales_to.of, scales_to.address + head * scales_to.step, &scale, sizeof scale)) {
            return false;
        }
    }
    return true;
}

static bool rotate_part(const qkv_work *work, const rotated_part *part)
{
    float gamma[HEAD_SIZE];

    if (!read_floats(&work->places[part->gamma], work->places[part->gamma].start, gamma, HEAD_SIZE)) {
        return false;
    }
    for (uint64_t step = 0; step < work->tokens; step++) {
        if (!rotate_token(work, part, gamma, part->order(step, work->tokens))) {
            return false;
        }
    }
    return true;
}

static bool scale_v_token(const qkv_work *work, uint64_t token)
{
    const uint64_t *heads = work->details->heads;
    const device_run codes_to = cache_place(work, V_CACHE, token);

    device_at_token(token, "slot", work->slots[token]);
    for (uint64_t head = 0; head < heads[V_HEADS]; head++) {
        float row[HEAD_SIZE];
        uint8_t codes[HEAD_SIZE];
        float factor;
        if (!read_head(work, token, heads[Q_HEADS] + heads[K_HEADS] + head, row) ||
            !read_floats(&work->places[V_SCALE], work->places[V_SCALE].start + head * sizeof factor, &factor, 1)) {
            return false;
        }
        qkv_quantise_by(factor, row, codes);
        if (!device_write(codes_to.of, codes_to.address + head * codes_to.step, codes, sizeof codes)) {
            return false;
        }
    }
    return true;
}

/* In another order of tokens than K's: see op_duplicates.h. */
static bool scale_v(const qkv_work *work)
{
    for (uint64_t step = 0; step < work->tokens; step++) {
        if (!scale_v_token(work, even_tokens_first(step, work->tokens))) {
            return false;
        }
    }
    return true;
}

static bool read_rotation(qkv_work *work)
{
    for (uint64_t i = 0; i < HEAD_SIZE; i++) {
        const uint64_t address = work->places[ROTATION].start + i * HEAD_SIZE * sizeof(uint16_t);
        if (!read_row(&work->places[ROTATION], address, &work->rotation[i * HEAD_SIZE])) {
            return false;
        }
    }
    return true;
}

static bool stage_in(const op_launch *launch, qkv_work *work)
{
    for (size_t i = 0; i < QKV_TENSORS; i++) {
        if (!op_stage_in(launch, i, work->details->staged_at[i], &work->places[i])) {
            return false;
        }
    }
    return true;
}

static aclError run(const op_launch *launch)
{
    qkv_work *work = calloc(1, sizeof *work);

    if (work == NULL) {
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    work->details = launch->plan->details;
    work->tensors = launch->plan->tensors;
    work->tokens = op_tensor_count(&work->tensors[QKV], work->details->layout_in == TND ? 0 : 1);
    const bool is_done = work->tokens == 0 ||
                         (stage_in(launch, work) && read_rotation(work) && qkv_read_slots(work) &&
                          qkv_read_positions(work) && rotate_part(work, &q_part) && rotate_part(work, &k_part) &&
                          scale_v(work));
    free(work->slots);
    free(work->positions);
    free(work);
    return is_done ? ACL_SUCCESS : ACL_ERROR_RT_AICORE_EXCEPTION;
}

const op_kernel qkv_kernel = {QKV_NAME, qkv_names, run};
