/* SPDX-License-Identifier: Apache-2.0 */
/* Floats as bits, and the roundings made of them. All without branches, so that loops over them become vector code. */
#ifndef ACLSIM_OPAPI_ROWS_BITS_H_
#define ACLSIM_OPAPI_ROWS_BITS_H_

#include <stdint.h>
#include <string.h>

#define SIGN 0x80000000U
#define INFINITE 0x7F800000U
#define QUIET_NAN 0x7FC00000U

static inline uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What a conditional expression gives, but with both values computed: compilers make branches of those. */
static inline uint32_t choose(int condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = 0U - (uint32_t)condition;

    return (yes & mask) | (no & ~mask);
}

/* To a multiple of 2^dropped, ties to even. A carry out of the mantissa goes into the exponent, where it belongs. */
static inline uint32_t round_bits(uint32_t bits, int dropped)
{
    return bits + ((1U << (dropped - 1)) - 1) + (bits >> dropped & 1U);
}

static inline float from_bf16(uint16_t code)
{
    return float_of((uint32_t)code << 16);
}

/* The nearest value of BF16; what is too large becomes Inf, a NaN stays one, made quiet. */
static inline float nearest_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t quiet = bits | 0x00400000U;
    const uint32_t rounded = choose((bits & ~SIGN) > INFINITE, quiet, round_bits(bits, 16));

    return float_of(rounded & 0xFFFF0000U);
}

/* The cast of the matrix unit's output: what is too large becomes the greatest number, a NaN +0
   (qkv_rms_norm_rope_cache_with_k_scale.md, 5.3). */
static inline uint16_t saturated_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t absolute = bits & ~SIGN;
    const uint32_t rounded = round_bits(absolute, 16) >> 16;
    const uint32_t kept = choose(rounded < 0x7F7FU, rounded, 0x7F7FU);

    return (uint16_t)choose(absolute > INFINITE, 0, kept | (bits >> 16 & 0x8000U));
}

/* The saturating cast of the vector unit to E4M3FN: subnormals kept, a NaN +0, too small a zero of its sign. */
static inline uint8_t to_e4m3(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t absolute = bits & ~SIGN;
    /* Exponent and mantissa are one number: 7 less of the one, 3 bits of the other. */
    const uint32_t normal = round_bits(absolute - (120U << 23), 20) >> 20;
    /* Next to 2^14 floats are 2^-9 apart, as subnormals are. */
    const uint32_t subnormal = bits_of(float_of(absolute) + 0x1p14F) - 0x46800000U;
    const uint32_t code = choose(absolute < 121U << 23, subnormal, normal);
    const uint32_t kept = choose(code < 0x7EU, code, 0x7EU);

    return (uint8_t)choose(absolute > INFINITE, 0, kept | (bits >> 24 & 0x80U));
}

/* To FP16 and from there to the nearest INT8, saturating, a NaN 0. FP16 is its mantissa alone here: what is too small
   for its exponents is 0 either way, and what is too large saturates. */
static inline int8_t to_int8_by_fp16(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t absolute = bits & ~SIGN;
    const uint32_t sign = bits >> 31;
    const uint32_t half = round_bits(absolute, 13) & 0xFFFFE000U;
    const uint32_t greatest = 0x42FE0000U + (sign << 17); /* 127, or 128 below zero */
    const uint32_t kept = choose(half < greatest, half, greatest);
    /* Next to 2^23 floats are 1 apart. */
    const uint32_t rounded = bits_of(float_of(kept) + 0x1p23F) - 0x4B000000U;

    return (int8_t)choose(absolute > INFINITE, 0, (rounded ^ (0U - sign)) + sign);
}

#endif
