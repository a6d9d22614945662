/* SPDX-License-Identifier: Apache-2.0 */
/* Steps 2 to 5 of the row (qkv_rms_norm_rope_cache_with_k_scale.md, 5.1). */
#include <math.h>

#include "opapi/qkv_rows.h"

enum { LANES = HEAD_SIZE / 2 };

/* One lane holds the squares of both halves; lanes are then added neighbour to neighbour, as a binary tree. */
static float sum_of_squares(const float row[HEAD_SIZE])
{
    float lanes[LANES];

    for (int i = 0; i < LANES; i++) {
        const float low = row[i] * row[i];
        const float high = row[i + LANES] * row[i + LANES];
        lanes[i] = low + high;
    }
    for (int count = LANES / 2; count > 0; count /= 2) {
        for (int i = 0; i < count; i++) {
            lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
        }
    }
    return lanes[0];
}

void qkv_normalise(float row[HEAD_SIZE], const float gamma[HEAD_SIZE], float epsilon)
{
    const float mean = sum_of_squares(row) * (1.0F / HEAD_SIZE);
    const float root = sqrtf(mean + epsilon);

    for (int i = 0; i < HEAD_SIZE; i++) {
        const float normal = row[i] / root;
        row[i] = normal * gamma[i];
    }
}

void qkv_turn(float row[HEAD_SIZE], const float cos_sin[HEAD_SIZE])
{
    for (int i = 0; i < LANES; i++) {
        const float low = row[i];
        const float high = row[i + LANES];
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
