/* SPDX-License-Identifier: Apache-2.0 */
/* Step 8 of the row, the whole way of V, and the blocks of the Mx scene (qkv_rms_norm_rope_cache_with_k_scale.md, 5.1,
   5.2 and 5.5). */
#ifndef ACLSIM_OPAPI_ROWS_QUANTISE_H_
#define ACLSIM_OPAPI_ROWS_QUANTISE_H_

#include "opapi/qkv_rows.h"
#include "opapi/rows/bits.h"

/* Bits of the greatest absolute value: as numbers they stand in its order, and NaN above all. */
static inline uint32_t greatest_bits(const float *restrict values, int count)
{
    uint32_t greatest = 0;

    for (int i = 0; i < count; i++) {
        const uint32_t absolute = bits_of(values[i]) & ~SIGN;
        greatest = absolute > greatest ? absolute : greatest;
    }
    return greatest;
}

/* There is no floor under a scale: a row of zeros is 0 over 0, which the cast makes 0. */
static void to_fp8(const float *restrict row, void *restrict codes, void *restrict scale)
{
    const float unit = float_of(greatest_bits(row, HEAD_SIZE)) / 448.0F;
    uint8_t *out = codes;

    for (int i = 0; i < HEAD_SIZE; i++) {
        out[i] = to_e4m3(row[i] / unit);
    }
    memcpy(scale, &unit, sizeof unit);
}

static void to_int8(const float *restrict row, void *restrict codes, void *restrict scale)
{
    const float unit = float_of(greatest_bits(row, HEAD_SIZE)) / 127.0F;
    int8_t *out = codes;

    for (int i = 0; i < HEAD_SIZE; i++) {
        out[i] = to_int8_by_fp16(row[i] / unit);
    }
    memcpy(scale, &unit, sizeof unit);
}

static void to_bf16(const float *restrict row, void *restrict codes, void *restrict unused)
{
    uint16_t *out = codes;

    (void)unused;
    for (int i = 0; i < HEAD_SIZE; i++) {
        out[i] = saturated_bf16(row[i]);
    }
}

/* The exponent with which the block's greatest value is 448 or just below; 0xFF for a block that is not finite. */
static inline uint8_t exponent_of(uint32_t greatest)
{
    if (greatest >= INFINITE) {
        return 0xFF;
    }
    return (uint8_t)(greatest > 0x04600001U ? ((greatest + 0x1FFFFFU) >> 23) - 8 : 0);
}

static void to_mx(const float *restrict row, void *restrict codes, void *restrict exponents)
{
    uint8_t *out = codes;
    uint8_t *exponent = exponents;

    for (int block = 0; block < HEAD_SIZE; block += MX_BLOCK) {
        const uint8_t shared = exponent_of(greatest_bits(row + block, MX_BLOCK));
        const float factor = float_of(shared == 0xFF ? QUIET_NAN : (254U - shared) << 23);
        for (int i = 0; i < MX_BLOCK; i++) {
            out[block + i] = to_e4m3(row[block + i] * factor);
        }
        *exponent++ = shared;
    }
}

static void multiply(const uint16_t *restrict codes, const float *restrict factors, void *restrict products)
{
    uint8_t *out = products;

    for (int i = 0; i < HEAD_SIZE; i++) {
        out[i] = to_e4m3(from_bf16(codes[i]) * factors[i]);
    }
}

#endif
