/* SPDX-License-Identifier: Apache-2.0 */
/* Runs floats through the simulator's conversions: 4 bytes in; E4M3FN, E5M2 and BF16 codes and the float of the lower
   two bytes taken as BF16 out, 8 bytes. */
#include <stdio.h>
#include <string.h>

#include "opapi/bf16.h"
#include "opapi/fp8.h"

int main(void)
{
    uint32_t bits;

    while (fread(&bits, sizeof bits, 1, stdin) == 1) {
        unsigned char out[8];
        float value;
        memcpy(&value, &bits, sizeof value);
        const uint16_t rounded = bf16_from_float(value);
        const float widened = bf16_to_float((uint16_t)bits);
        out[0] = fp8_from_float(fp8_e4m3fn, value);
        out[1] = fp8_from_float(fp8_e5m2, value);
        memcpy(out + 2, &rounded, sizeof rounded);
        memcpy(out + 4, &widened, sizeof widened);
        if (fwrite(out, sizeof out, 1, stdout) != 1) {
            return 1;
        }
    }
    return 0;
}
