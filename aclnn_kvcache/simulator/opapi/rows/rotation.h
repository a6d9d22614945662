/* SPDX-License-Identifier: Apache-2.0 */
/* Steps 6 and 7 of the row (qkv_rms_norm_rope_cache_with_k_scale.md, 5.1): nearly all of the operator's time. */
#ifndef ACLSIM_OPAPI_ROWS_ROTATION_H_
#define ACLSIM_OPAPI_ROWS_ROTATION_H_

#include "opapi/qkv_rows.h"
#include "opapi/rows/bits.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));

enum { WIDTH = VECTOR_BYTES / sizeof(float) };

/* Two vectors of columns for a few rows: as many sums as registers hold. Products of BF16 values are exact. The order
   of their sum is documented nowhere (device_arithmetic.md): here it is that of the matrix's rows, for every column. */
static inline void rotate_columns(const float *restrict rows, const float *restrict matrix, float *restrict sums)
{
    vector left[ROWS_AT_ONCE] = {{0}};
    vector right[ROWS_AT_ONCE] = {{0}};

    for (int i = 0; i < HEAD_SIZE; i++) {
        vector first, second;
        memcpy(&first, matrix + i * HEAD_SIZE, sizeof first);
        memcpy(&second, matrix + i * HEAD_SIZE + WIDTH, sizeof second);
        for (int row = 0; row < ROWS_AT_ONCE; row++) {
            left[row] += rows[row * HEAD_SIZE + i] * first;
            right[row] += rows[row * HEAD_SIZE + i] * second;
        }
    }
    for (int row = 0; row < ROWS_AT_ONCE; row++) {
        memcpy(sums + row * HEAD_SIZE, &left[row], sizeof left[row]);
        memcpy(sums + row * HEAD_SIZE + WIDTH, &right[row], sizeof right[row]);
    }
}

static void rotate(float *restrict rows, size_t count, const float *restrict matrix)
{
    for (size_t first = 0; first < count; first += ROWS_AT_ONCE) {
        float *block = rows + first * HEAD_SIZE;
        float rounded[ROWS_AT_ONCE * HEAD_SIZE];
        for (int i = 0; i < ROWS_AT_ONCE * HEAD_SIZE; i++) {
            rounded[i] = nearest_bf16(block[i]);
        }
        for (int column = 0; column < HEAD_SIZE; column += 2 * WIDTH) {
            rotate_columns(rounded, matrix + column, block + column);
        }
    }
}

#endif
