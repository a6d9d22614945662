/* SPDX-License-Identifier: Apache-2.0 */
/* Steps 1 to 5 of the row (qkv_rms_norm_rope_cache_with_k_scale.md, 5.1). */
#ifndef ACLSIM_OPAPI_ROWS_NORM_H_
#define ACLSIM_OPAPI_ROWS_NORM_H_

#include <math.h>

#include "opapi/qkv_rows.h"
#include "opapi/rows/bits.h"

enum { LANES = HEAD_SIZE / 2 };

/* One lane holds the squares of both halves; lanes are then added neighbour to neighbour, as a binary tree. */
static inline float sum_of_squares(const float *restrict row)
{
    float lanes[2][LANES];
    int from = 0;

    for (int i = 0; i < LANES; i++) {
        const float low = row[i] * row[i];
        const float high = row[i + LANES] * row[i + LANES];
        lanes[0][i] = low + high;
    }
    for (int count = LANES / 2; count > 0; count /= 2) {
        for (int i = 0; i < count; i++) {
            lanes[!from][i] = lanes[from][2 * i] + lanes[from][2 * i + 1];
        }
        from = !from;
    }
    return lanes[from][0];
}

/* Divides by the root of the mean square. */
static inline void normalise(const uint16_t *restrict codes, float epsilon, float *restrict row)
{
    for (int i = 0; i < HEAD_SIZE; i++) {
        row[i] = from_bf16(codes[i]);
    }
    const float mean = sum_of_squares(row) * (1.0F / HEAD_SIZE);
    const float root = sqrtf(mean + epsilon);

    for (int i = 0; i < HEAD_SIZE; i++) {
        row[i] = row[i] / root;
    }
}

static void turn(const uint16_t *restrict codes, const float *restrict gamma, const float *restrict cos_sin,
                 float epsilon, float *restrict row)
{
    normalise(codes, epsilon, row);
    for (int i = 0; i < LANES; i++) {
        const float low = row[i] * gamma[i];
        const float high = row[i + LANES] * gamma[i + LANES];
        const float cosine = cos_sin[i];
        const float sine = cos_sin[i + LANES];
        const float low_cosine = low * cosine;
        const float high_sine = high * sine;
        const float high_cosine = high * cosine;
        const float low_sine = low * sine;
        row[i] = low_cosine - high_sine;
        row[i + LANES] = high_cosine + low_sine;
    }
}

/* The kernel of the Mx scene (5.5), in the order of its row path: the row is normalised before it is turned. */
static void turn_folded(const uint16_t *restrict codes, const float *restrict gamma, const float *restrict cos_sin,
                        float epsilon, float *restrict row)
{
    normalise(codes, epsilon, row);
    for (int i = 0; i < LANES; i++) {
        const float low = row[i];
        const float high = row[i + LANES];
        const float low_cosine = cos_sin[i] * gamma[i];
        const float high_cosine = cos_sin[i] * gamma[i + LANES];
        const float low_sine = cos_sin[i + LANES] * gamma[i];
        const float high_sine = cos_sin[i + LANES] * gamma[i + LANES];
        const float kept_low = low * low_cosine;
        const float kept_high = high * high_cosine;
        const float crossed_low = low * low_sine;
        const float crossed_high = high * high_sine;
        row[i] = kept_low - crossed_high;
        row[i + LANES] = kept_high + crossed_low;
    }
}

#endif
