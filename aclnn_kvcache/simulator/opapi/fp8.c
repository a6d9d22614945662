/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/fp8.h"

#include <string.h>

const fp8_format fp8_e4m3fn = {.mantissa_bits = 3, .bias = 7, .greatest = 0x7E};
const fp8_format fp8_e5m2 = {.mantissa_bits = 2, .bias = 15, .greatest = 0x7B};

enum { FLOAT_MANTISSA = 23, FLOAT_BIAS = 127 };

static const uint32_t infinity = 0x7F800000U;
static const uint32_t hidden_bit = 1U << FLOAT_MANTISSA;

/* value / 2^shift to the nearest, ties to even; shift is positive. */
static uint32_t round_shift(uint32_t value, uint32_t shift)
{
    const uint32_t below_half = (1U << (shift - 1)) - 1;

    return (value + below_half + (value >> shift & 1U)) >> shift;
}

/* Of a float without its sign that is no NaN; may be beyond the greatest code. */
static uint32_t magnitude(fp8_format format, uint32_t bits)
{
    const uint32_t dropped = FLOAT_MANTISSA - format.mantissa_bits;
    const uint32_t least_normal = FLOAT_BIAS - format.bias + 1;
    const uint32_t exponent = bits >> FLOAT_MANTISSA;

    if (exponent >= least_normal) {
        /* Exponent and mantissa are one number: rounding up out of the mantissa gives the next exponent. */
        return round_shift(bits - ((least_normal - 1) << FLOAT_MANTISSA), dropped);
    }
    const uint32_t shift = dropped + least_normal - exponent;
    if (shift > FLOAT_MANTISSA + 1) {
        return 0; /* less than half of the least subnormal */
    }
    return round_shift((bits & (hidden_bit - 1)) | hidden_bit, shift);
}

uint8_t fp8_from_float(fp8_format format, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 31 << 7;
    const uint32_t absolute = bits & 0x7FFFFFFFU;
    if (absolute > infinity) {
        return 0;
    }
    const uint32_t code = magnitude(format, absolute);
    return (uint8_t)(sign | (code < format.greatest ? code : format.greatest));
}
