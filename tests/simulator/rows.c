/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the arithmetic of rows, as compiled for each vector unit that this processor has, against plain loops that take
   one step after the other. Prints the units that agree on every row; fails on the first row that differs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opapi/qkv_rows.h"
#include "opapi/rows/bits.h"

enum { ROWS = 400, LANES = HEAD_SIZE / 2 };

static uint16_t codes[ROWS][HEAD_SIZE];
static float gammas[HEAD_SIZE], angles[HEAD_SIZE], matrix[HEAD_SIZE][HEAD_SIZE];

static uint64_t state = 0x9E3779B97F4A7C15U;

static uint32_t any_bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

/* In [-1, 1), in steps of 2^-23. */
static float fraction(void)
{
    return (float)(int32_t)any_bits() / 0x1p31F;
}

/* BF16 codes whose exponents spread this far around 1; any pattern for 0. */
static uint16_t any_code(int spread)
{
    const uint32_t bits = any_bits();
    const int exponent = spread == 0 ? 0 : 127 - spread + (int)(bits >> 16) % (2 * spread);

    return (uint16_t)(spread == 0 ? bits : (bits & 0x807F) | (uint32_t)exponent << 7);
}

static void plain_turn(const uint16_t *row_codes, float epsilon, int folded, float *row)
{
    float lanes[LANES];

    for (int i = 0; i < HEAD_SIZE; i++) {
        row[i] = from_bf16(row_codes[i]);
    }
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
    const float mean = lanes[0] * (1.0F / HEAD_SIZE);
    const float root = sqrtf(mean + epsilon);
    for (int i = 0; i < LANES; i++) {
        const float normal_low = row[i] / root;
        const float normal_high = row[i + LANES] / root;
        float terms[4];
        if (folded) {
            const float factors[4] = {angles[i] * gammas[i], angles[i + LANES] * gammas[i + LANES],
                                      angles[i] * gammas[i + LANES], angles[i + LANES] * gammas[i]};
            terms[0] = normal_low * factors[0];
            terms[1] = normal_high * factors[1];
            terms[2] = normal_high * factors[2];
            terms[3] = normal_low * factors[3];
        } else {
            const float low = normal_low * gammas[i];
            const float high = normal_high * gammas[i + LANES];
            terms[0] = low * angles[i];
            terms[1] = high * angles[i + LANES];
            terms[2] = high * angles[i];
            terms[3] = low * angles[i + LANES];
        }
        row[i] = terms[0] - terms[1];
        row[i + LANES] = terms[2] + terms[3];
    }
}

static void plain_rotate(const float *row, float *out)
{
    for (int j = 0; j < HEAD_SIZE; j++) {
        float sum = 0;
        for (int i = 0; i < HEAD_SIZE; i++) {
            const float product = nearest_bf16(row[i]) * matrix[i][j];
            sum = sum + product;
        }
        out[j] = sum;
    }
}

static float plain_greatest(const float *values, int count)
{
    float greatest = 0;

    for (int i = 0; i < count; i++) {
        if (isnan(values[i])) {
            return NAN;
        }
        greatest = fabsf(values[i]) > greatest ? fabsf(values[i]) : greatest;
    }
    return greatest;
}

static void plain_convert(qkv_conversion conversion, const float *row, unsigned char *out, unsigned char *scale)
{
    const float unit = plain_greatest(row, HEAD_SIZE) / (conversion == TO_FP8 ? 448.0F : 127.0F);

    for (int i = 0; i < HEAD_SIZE; i++) {
        const float greatest = plain_greatest(&row[i / MX_BLOCK * MX_BLOCK], MX_BLOCK);
        const float ratio = greatest / 448.0F;
        int exponent;
        const float mantissa = frexpf(ratio, &exponent);
        const int least = mantissa == 0.5F ? exponent - 1 : exponent; /* 2^least is not less than the ratio */
        const int kept = ratio == 0 || least < -127 ? -127 : least;
        const uint16_t narrow = saturated_bf16(row[i]);
        switch (conversion) {
        case TO_FP8:
            out[i] = to_e4m3(row[i] / unit);
            break;
        case TO_INT8:
            out[i] = (unsigned char)to_int8_by_fp16(row[i] / unit);
            break;
        case TO_BF16:
            memcpy(&out[2 * i], &narrow, sizeof narrow);
            break;
        default:
            scale[i / MX_BLOCK] = isfinite(greatest) ? (unsigned char)(kept + 127) : 0xFF;
            out[i] = isfinite(greatest) ? to_e4m3(ldexpf(row[i], -kept)) : 0;
        }
    }
    if (conversion == TO_FP8 || conversion == TO_INT8) {
        memcpy(scale, &unit, sizeof unit);
    }
}

static int same_floats(const float *one, const float *other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bits_of(one[i]) != bits_of(other[i]) && !(isnan(one[i]) && isnan(other[i]))) {
            return 0;
        }
    }
    return 1;
}

static int same_scales(qkv_conversion conversion, const unsigned char *one, const unsigned char *other)
{
    float floats[2];

    if (conversion == TO_MX || conversion == TO_BF16) {
        return memcmp(one, other, 4) == 0;
    }
    memcpy(&floats[0], one, sizeof floats[0]);
    memcpy(&floats[1], other, sizeof floats[1]);
    return same_floats(&floats[0], &floats[1], 1);
}

static void fail(const qkv_arithmetic *unit, const char *step, int row, int spread)
{
    printf("%s differs in %s, row %d of spread %d\n", unit->unit, step, row, spread);
    exit(1);
}

static void compare(const qkv_arithmetic *unit, int spread)
{
    static float rows[ROWS][HEAD_SIZE], rotated[ROWS][HEAD_SIZE], wanted[HEAD_SIZE];
    unsigned char got[2 * HEAD_SIZE], want[2 * HEAD_SIZE], scales[2][4];

    for (int row = 0; row < ROWS; row++) {
        for (int place = 0; place < GAMMA_PLACES; place++) {
            unit->turn[place](codes[row], gammas, angles, 1e-6F, rows[row]);
            plain_turn(codes[row], 1e-6F, place == GAMMA_ON_ANGLES, wanted);
            if (!same_floats(rows[row], wanted, HEAD_SIZE)) {
                fail(unit, "a turn", row, spread);
            }
        }
    }
    memcpy(rotated, rows, sizeof rows);
    unit->rotate(rotated[0], ROWS, matrix[0]);
    for (int row = 0; row < ROWS; row++) {
        plain_rotate(rows[row], wanted);
        if (!same_floats(rotated[row], wanted, HEAD_SIZE)) {
            fail(unit, "the rotation", row, spread);
        }
        for (int i = 0; i < CONVERSIONS; i++) {
            memset(scales, 0, sizeof scales);
            unit->convert[i](rotated[row], got, scales[0]);
            plain_convert((qkv_conversion)i, wanted, want, scales[1]);
            if (memcmp(got, want, i == TO_BF16 ? 2 * HEAD_SIZE : HEAD_SIZE) != 0 ||
                !same_scales((qkv_conversion)i, scales[0], scales[1])) {
                fail(unit, "a conversion", row, spread);
            }
        }
        unit->multiply(codes[row], angles, got);
        for (int i = 0; i < HEAD_SIZE; i++) {
            if (got[i] != to_e4m3(from_bf16(codes[row][i]) * angles[i])) {
                fail(unit, "a product", row, spread);
            }
        }
    }
}

/* Exponents far apart in a row, in the gammas and in the matrix make sums whose order shows. */
static void fill(int spread)
{
    for (int i = 0; i < HEAD_SIZE; i++) {
        gammas[i] = ldexpf(1.5F + fraction() / 2, spread == 0 ? (int)(any_bits() % 200) - 100 : 0);
        angles[i] = fraction();
        for (int j = 0; j < HEAD_SIZE; j++) {
            matrix[i][j] = from_bf16(any_code(spread == 0 ? 100 : spread));
        }
    }
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < HEAD_SIZE; i++) {
            codes[row][i] = row == 0 ? 0 : any_code(spread == 0 && row % 2 ? 60 : spread);
        }
    }
}

int main(void)
{
    static const int spreads[] = {1, 4, 20, 60, 0};
    const qkv_arithmetic *units[4] = {&qkv_arithmetic_baseline};
    size_t count = 1;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        units[count++] = &qkv_arithmetic_avx2;
    }
    if (qkv_arithmetic_here() == &qkv_arithmetic_avx512) {
        units[count++] = &qkv_arithmetic_avx512;
    }
#endif
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof spreads / sizeof spreads[0]; j++) {
            fill(spreads[j]);
            compare(units[i], spreads[j]);
        }
        printf("%s\n", units[i]->unit);
    }
    return 0;
}
