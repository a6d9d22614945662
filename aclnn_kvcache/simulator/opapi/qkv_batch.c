/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/qkv_batch.h"

#include <stdlib.h>

#include "core/parallel.h"

/* A part's floats stay in a core's own cache; a batch is long enough for all cores. */
enum { PART_ROWS = 32, BATCH_ROWS = 2048 };
_Static_assert(PART_ROWS % ROWS_AT_ONCE == 0, "parts are rotated whole");

bool qkv_batch_open(qkv_batch *batch)
{
    batch->most_tokens = batch->heads < BATCH_ROWS ? BATCH_ROWS / batch->heads : 1;
    if (batch->most_tokens > batch->work->tokens) {
        batch->most_tokens = batch->work->tokens;
    }
    const size_t rows = batch->most_tokens * batch->heads;

    batch->angles = malloc(batch->most_tokens * sizeof *batch->angles);
    batch->rows = malloc(rows * sizeof *batch->rows);
    batch->results = malloc(rows * batch->recipe->row_bytes);
    batch->scales = malloc(rows * sizeof *batch->scales);
    return batch->angles != NULL && batch->rows != NULL && batch->results != NULL && batch->scales != NULL;
}

void qkv_batch_close(qkv_batch *batch)
{
    free(batch->angles);
    free(batch->rows);
    free(batch->results);
    free(batch->scales);
}

static void multiply_rows(const qkv_batch *batch, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        batch->work->arithmetic->multiply(batch->rows[i], &batch->factors[i % batch->heads * HEAD_SIZE],
                                          &batch->results[i * batch->recipe->row_bytes]);
    }
}

/* Rows behind the last are zeros, and their results nobody's. */
static void turn_rows(const qkv_batch *batch, uint64_t first, uint64_t count)
{
    const qkv_recipe *recipe = batch->recipe;
    const qkv_work *work = batch->work;
    const qkv_arithmetic *arithmetic = work->arithmetic;
    float rows[PART_ROWS][HEAD_SIZE];
    uint64_t whole = count;

    for (uint64_t i = 0; i < count; i++) {
        arithmetic->turn[recipe->gamma_place](batch->rows[first + i], batch->gamma,
                                              batch->angles[(first + i) / batch->heads], work->details->epsilon,
                                              rows[i]);
    }
    for (; whole % ROWS_AT_ONCE != 0; whole++) {
        for (int channel = 0; channel < HEAD_SIZE; channel++) {
            rows[whole][channel] = 0;
        }
    }
    if (recipe->is_rotated) {
        arithmetic->rotate(rows[0], whole, work->rotation);
    }
    for (uint64_t i = 0; i < count; i++) {
        arithmetic->convert[recipe->conversion](rows[i], &batch->results[(first + i) * recipe->row_bytes],
                                                batch->scales[first + i]);
    }
}

static void compute_part(void *argument, size_t part)
{
    const qkv_batch *batch = argument;
    const uint64_t all = batch->tokens * batch->heads;
    const uint64_t first = part * PART_ROWS;
    const uint64_t count = all - first < PART_ROWS ? all - first : PART_ROWS;

    if (batch->gamma == NULL) {
        multiply_rows(batch, first, count);
    } else {
        turn_rows(batch, first, count);
    }
}

void qkv_batch_compute(qkv_batch *batch)
{
    sim_parallel((batch->tokens * batch->heads + PART_ROWS - 1) / PART_ROWS, compute_part, batch);
}
