/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel: all rows of Q, K and V through their arithmetic and to their places. Addresses are computed with 64
   unsigned bits that wrap, and nothing about slots or positions is checked: what lands in live memory is moved there
   (qkv_rms_norm_rope_cache_with_k_scale.md, 2.5). */
#include <stdlib.h>

#include "opapi/device_check.h"
#include "opapi/device_copy.h"
#include "opapi/op_clashes.h"
#include "opapi/op_duplicates.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv_batch.h"
#include "opapi/rows/bits.h"

/* Where the heads of a token go in a tensor whose rows have this many bytes. */
typedef device_run (*token_place)(const qkv_work *work, qkv_tensor tensor, uint64_t token, size_t row_bytes);

/* Outputs are written as if they were dense, whatever their strides (observed.md, Not checked). */
static device_run output_place(const qkv_work *work, qkv_tensor tensor, uint64_t token, size_t row_bytes)
{
    const op_operand_place *output = &work->places[tensor];
    const bool is_token_major = work->details->layout_out == TND;
    const uint64_t token_rows = is_token_major ? work->details->heads[Q_HEADS] : 1;
    const uint64_t head_rows = is_token_major ? 1 : work->tokens;

    return (device_run){output, output->start + token * token_rows * row_bytes, head_rows * row_bytes};
}

/* A slot is widened to unsigned by its sign, so that -1 is the last row of "block -1". */
static device_run cache_place(const qkv_work *work, qkv_tensor tensor, uint64_t token, size_t row_bytes)
{
    const op_operand_place *cache = &work->places[tensor];
    const uint64_t block_size = (uint64_t)work->tensors[K_CACHE].dims[2];
    const uint64_t slot = (uint64_t)work->slots[token];
    const uint64_t offset = slot / block_size * cache->strides[0] + slot % block_size * cache->strides[2];

    (void)row_bytes; /* strides tell */
    return (device_run){cache, cache->start + offset * cache->item_bytes, cache->strides[1] * cache->item_bytes};
}

/* Where the rows of Q, K and V go, and in which order of tokens (see op_duplicates.h). */
typedef struct {
    qkv_tensor codes;
    qkv_tensor scales;
    token_place place;
    token_order order;
} target;

static const target targets[HEAD_KINDS] = {
    [Q_HEADS] = {Q_OUT, Q_SCALE, output_place, even_tokens_first},
    [K_HEADS] = {K_CACHE, K_SCALE_CACHE, cache_place, odd_tokens_first},
    [V_HEADS] = {V_CACHE, QKV_TENSORS, cache_place, even_tokens_first},
};

static const qkv_recipe recipes[SCENES][HEAD_KINDS] = {
    [ROPE] = {
        [Q_HEADS] = {GAMMA_ON_ROW, true, TO_FP8, HEAD_SIZE, SCALE_BYTES},
        [K_HEADS] = {GAMMA_ON_ROW, true, TO_FP8, HEAD_SIZE, SCALE_BYTES},
        [V_HEADS] = {.row_bytes = HEAD_SIZE},
    },
    [MROPE] = {
        [Q_HEADS] = {GAMMA_ON_ROW, true, TO_BF16, HEAD_SIZE * sizeof(uint16_t), 0},
        [K_HEADS] = {GAMMA_ON_ROW, true, TO_INT8, HEAD_SIZE, SCALE_BYTES},
        [V_HEADS] = {.row_bytes = HEAD_SIZE},
    },
    [MX] = {
        [Q_HEADS] = {GAMMA_ON_ANGLES, false, TO_MX, HEAD_SIZE, SCALE_BYTES},
        [K_HEADS] = {GAMMA_ON_ANGLES, false, TO_MX, HEAD_SIZE, SCALE_BYTES},
        [V_HEADS] = {.row_bytes = HEAD_SIZE},
    },
};

/* Of all tokens. */
static bool read_floats(const qkv_work *work, qkv_tensor tensor, uint64_t first, float *values, uint64_t count)
{
    const op_operand_place *of = &work->places[tensor];

    device_at_no_token();
    return device_read(of, of->start + first * sizeof *values, values, count * sizeof *values);
}

/* One of the rows of a token, counted over all heads of Q, K and V, and where its results go if they are as long. */
static bool read_row(const qkv_work *work, uint64_t token, uint64_t head, uint16_t row[HEAD_SIZE], uint64_t result)
{
    const uint64_t *heads = work->details->heads;
    const uint64_t all = heads[Q_HEADS] + heads[K_HEADS] + heads[V_HEADS];
    const uint64_t index = work->details->layout_in == TND ? token * all + head : head * work->tokens + token;
    const op_operand_place *qkv = &work->places[QKV];
    const uint64_t address = qkv->start + index * HEAD_SIZE * sizeof *row;

    return device_read_row(qkv, address, row, HEAD_SIZE * sizeof *row, address == result);
}

static bool read_token(qkv_batch *batch, qkv_heads kind, uint64_t token)
{
    const qkv_work *work = batch->work;
    const uint64_t *heads = work->details->heads;
    const uint64_t first_head = kind == Q_HEADS ? 0 : heads[Q_HEADS] + (kind == K_HEADS ? 0 : heads[K_HEADS]);
    const target *to = &targets[kind];
    const size_t row_bytes = batch->recipe->row_bytes;
    const device_run results = to->place(work, to->codes, token, row_bytes);

    if (kind != V_HEADS && !qkv_read_angles(work, token, batch->angles[batch->tokens])) {
        return false;
    }
    device_at_token(token, "slot", work->slots[token]);
    for (uint64_t head = 0; head < batch->heads; head++) {
        const uint64_t result = row_bytes == sizeof *batch->rows ? results.address + head * results.step : 0;
        if (!read_row(work, token, first_head + head, batch->rows[batch->tokens * batch->heads + head], result)) {
            return false;
        }
    }
    batch->tokens++;
    return true;
}

static bool write_token(const qkv_batch *batch, const target *to, uint64_t token, uint64_t index)
{
    const size_t row_bytes = batch->recipe->row_bytes;
    const size_t scale_bytes = batch->recipe->scale_bytes;
    const device_run codes = to->place(batch->work, to->codes, token, row_bytes);
    const device_run scales = scale_bytes == 0 ? codes : to->place(batch->work, to->scales, token, scale_bytes);

    device_at_token(token, "slot", batch->work->slots[token]);
    for (uint64_t head = 0; head < batch->heads; head++) {
        const uint64_t row = index * batch->heads + head;
        if (!device_write(codes.of, codes.address + head * codes.step, &batch->results[row * row_bytes], row_bytes) ||
            (scale_bytes != 0 &&
             !device_write(scales.of, scales.address + head * scales.step, batch->scales[row], scale_bytes))) {
            return false;
        }
    }
    return true;
}

/* What was read before a fault still goes its way. */
static bool run_batch(qkv_batch *batch, qkv_heads kind, uint64_t first, uint64_t count)
{
    const target *to = &targets[kind];
    const uint64_t tokens = batch->work->tokens;
    bool is_good = true;

    batch->tokens = 0;
    while (batch->tokens < count && is_good) {
        is_good = read_token(batch, kind, to->order(first + batch->tokens, tokens));
    }
    qkv_batch_compute(batch);
    for (uint64_t i = 0; i < batch->tokens; i++) {
        if (!write_token(batch, to, to->order(first + i, tokens), i)) {
            return false;
        }
    }
    return is_good;
}

static bool run_part(const qkv_work *work, qkv_heads kind, const float *gamma, const float *factors)
{
    qkv_batch batch = {
        .work = work,
        .recipe = &recipes[work->details->scene][kind],
        .gamma = gamma,
        .factors = factors,
        .heads = work->details->heads[kind],
    };
    bool is_good = qkv_batch_open(&batch);

    for (uint64_t first = 0; first < work->tokens && is_good; first += batch.most_tokens) {
        const uint64_t left = work->tokens - first;
        is_good = run_batch(&batch, kind, first, left < batch.most_tokens ? left : batch.most_tokens);
    }
    qkv_batch_close(&batch);
    return is_good;
}

static bool run_rotated(const qkv_work *work, qkv_heads kind, qkv_tensor gamma_tensor)
{
    float gamma[HEAD_SIZE];

    return read_floats(work, gamma_tensor, 0, gamma, HEAD_SIZE) && run_part(work, kind, gamma, NULL);
}

/* A factor for each head, or for each of its channels. */
static bool read_factors(const qkv_work *work, float *factors, uint64_t heads)
{
    if (work->details->scene != ROPE) {
        return read_floats(work, V_SCALE, 0, factors, heads * HEAD_SIZE);
    }
    for (uint64_t head = 0; head < heads; head++) {
        float *row = &factors[head * HEAD_SIZE];
        if (!read_floats(work, V_SCALE, head, row, 1)) {
            return false;
        }
        for (int channel = 1; channel < HEAD_SIZE; channel++) {
            row[channel] = row[0];
        }
    }
    return true;
}

static bool run_v(const qkv_work *work)
{
    const uint64_t heads = work->details->heads[V_HEADS];
    float *factors = calloc(heads * HEAD_SIZE, sizeof *factors);
    const bool is_read = factors != NULL && read_factors(work, factors, heads);
    const bool is_good = is_read && run_part(work, V_HEADS, NULL, factors);

    free(factors);
    return is_good;
}

/* BF16 values as floats; the Mx scene has no matrix. */
static bool read_rotation(qkv_work *work)
{
    const op_operand_place *matrix = &work->places[ROTATION];
    uint16_t codes[HEAD_SIZE * HEAD_SIZE];

    if (work->details->scene == MX) {
        return true;
    }
    if (!device_read(matrix, matrix->start, codes, sizeof codes)) {
        return false;
    }
    for (int i = 0; i < HEAD_SIZE * HEAD_SIZE; i++) {
        work->rotation[i] = from_bf16(codes[i]);
    }
    return true;
}

static bool stage_in(const op_launch *launch, qkv_work *work)
{
    for (size_t i = 0; i < QKV_TENSORS; i++) {
        const int64_t staged_at = work->details->staged_at[i];
        if (staged_at != QKV_ABSENT && !op_stage_in(launch, i, staged_at, &work->places[i])) {
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
    work->arithmetic = qkv_arithmetic_here();
    work->tokens = op_tensor_count(&work->tensors[QKV], work->details->layout_in == TND ? 0 : 1);
    const bool is_done = work->tokens == 0 ||
                         (stage_in(launch, work) && read_rotation(work) && qkv_read_slots(work) &&
                          qkv_read_positions(work) && run_rotated(work, Q_HEADS, Q_GAMMA) &&
                          run_rotated(work, K_HEADS, K_GAMMA) && run_v(work));
    if (work->slots != NULL) {
        const uint64_t block_size = (uint64_t)work->tensors[K_CACHE].dims[2];
        op_report_overlapping_rows(launch, &(op_slots){work->slots, work->tokens, INT64_MAX, block_size});
    }
    free(work->slots);
    free(work->positions);
    free(work);
    return is_done ? ACL_SUCCESS : ACL_ERROR_RT_AICORE_EXCEPTION;
}

const op_kernel qkv_kernel = {
    QKV_NAME, qkv_names, 1 << K_CACHE | 1 << V_CACHE | 1 << K_SCALE_CACHE | 1 << Q_OUT | 1 << Q_SCALE, run};
