/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/bf16.h"

#include <string.h>

float bf16_to_float(uint16_t code)
{
    const uint32_t bits = (uint32_t)code << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

uint16_t bf16_from_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
        return (uint16_t)(bits >> 16 | 0x0040U);
    }
    /* A carry out of the mantissa goes into the exponent, which is where it belongs. */
    return (uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}
