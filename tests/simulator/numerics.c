/* SPDX-License-Identifier: Apache-2.0 */
/* Runs floats through the simulator's conversions: 4 bytes in; codes of E4M3FN, INT8 by FP16, BF16, saturated BF16, and
   the float of the lower two bytes taken as BF16 out, 10 bytes. */
#include <stdio.h>
#include <string.h>

#include "opapi/rows/bits.h"

int main(void)
{
    uint32_t bits;

    while (fread(&bits, sizeof bits, 1, stdin) == 1) {
        unsigned char out[10];
        const float value = float_of(bits);
        const uint16_t rounded = (uint16_t)(bits_of(nearest_bf16(value)) >> 16);
        const uint16_t saturated = saturated_bf16(value);
        const float widened = from_bf16((uint16_t)bits);
        out[0] = to_e4m3(value);
        out[1] = (unsigned char)to_int8_by_fp16(value);
        memcpy(out + 2, &rounded, sizeof rounded);
        memcpy(out + 4, &saturated, sizeof saturated);
        memcpy(out + 6, &widened, sizeof widened);
        if (fwrite(out, sizeof out, 1, stdout) != 1) {
            return 1;
        }
    }
    return 0;
}
