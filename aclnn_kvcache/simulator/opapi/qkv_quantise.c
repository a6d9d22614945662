/* SPDX-License-Identifier: Apache-2.0 */
/* Step 8 of the row, and the whole way of V (qkv_rms_norm_rope_cache_with_k_scale.md, 5.1 and 5.2). */
#include <math.h>

#include "opapi/fp8.h"
#include "opapi/qkv_rows.h"

static const float greatest_code = 448.0F;

/* A NaN wins over every number. */
static float greatest_absolute(const float row[HEAD_SIZE])
{
    float greatest = 0.0F;

    for (int i = 0; i < HEAD_SIZE; i++) {
        const float absolute = fabsf(row[i]);
        if (absolute > greatest || isnan(absolute)) {
            greatest = absolute;
        }
        if (isnan(greatest)) {
            break;
        }
    }
    return greatest;
}

/* There is no floor under the scale: a row of zeros is 0 over 0, which the cast makes 0. */
float qkv_quantise(const float row[HEAD_SIZE], uint8_t codes[HEAD_SIZE])
{
    const float scale = greatest_absolute(row) / greatest_code;

    for (int i = 0; i < HEAD_SIZE; i++) {
        codes[i] = fp8_from_float(fp8_e4m3fn, row[i] / scale);
    }
    return scale;
}

void qkv_quantise_by(float factor, const float row[HEAD_SIZE], uint8_t codes[HEAD_SIZE])
{
    for (int i = 0; i < HEAD_SIZE; i++) {
        codes[i] = fp8_from_float(fp8_e4m3fn, row[i] * factor);
    }
}
