/* SPDX-License-Identifier: Apache-2.0 */
/* Steps 6 and 7 of the row (qkv_rms_norm_rope_cache_with_k_scale.md, 5.1). Nearly all of the operator's time goes here:
   the build treats this file apart (CMakeLists.txt). */
#include <string.h>

#include "opapi/bf16.h"
#include "opapi/qkv_rows.h"

/* Products of BF16 values are exact. The order of their sum is documented nowhere (device_arithmetic.md): here it is
   that of the rows, for all columns at once. */
void qkv_rotate(float row[HEAD_SIZE], const float matrix[HEAD_SIZE * HEAD_SIZE])
{
    float sums[HEAD_SIZE] = {0};

    for (int i = 0; i < HEAD_SIZE; i++) {
        const float factor = bf16_to_float(bf16_from_float(row[i]));
        const float *line = &matrix[i * HEAD_SIZE];
        for (int j = 0; j < HEAD_SIZE; j++) {
            sums[j] += factor * line[j];
        }
    }
    memcpy(row, sums, sizeof sums);
}
