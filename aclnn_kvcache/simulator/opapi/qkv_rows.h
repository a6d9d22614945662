/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic on rows of one head, each step rounded as device_arithmetic.md says and none fused with another. Rows
   are HEAD_SIZE values, one behind the other. Divisions, roots and products follow IEEE 754, subnormals included; that
   the device may flush them is not copied. Every vector unit gives the same bytes. */
#ifndef ACLSIM_OPAPI_QKV_ROWS_H_
#define ACLSIM_OPAPI_QKV_ROWS_H_

#include <stddef.h>
#include <stdint.h>

#define HEAD_SIZE 128 /* a row's channels */
#define MX_BLOCK 32   /* channels that share an exponent */
#define ROWS_AT_ONCE 4 /* what rotate takes at a time */

/* Whether gamma is multiplied to the row in front of the turn, or into cosines and sines. */
typedef enum { GAMMA_ON_ROW, GAMMA_ON_ANGLES, GAMMA_PLACES } qkv_gamma_place;

typedef enum { TO_FP8, TO_INT8, TO_MX, TO_BF16, CONVERSIONS } qkv_conversion;

typedef struct {
    const char *unit; /* of the processor that it is made for */

    /* A row of BF16 codes over the root of its mean square; then its pairs (i, i + 64) turned by a row of the table, 64
       cosines and 64 sines. */
    void (*turn[GAMMA_PLACES])(const uint16_t *codes, const float *gamma, const float *cos_sin, float epsilon,
                               float *row);

    /* Rounds rows to BF16 and multiplies them with the matrix, which holds BF16 values. Whole multiples of
       ROWS_AT_ONCE. */
    void (*rotate)(float *rows, size_t count, const float *matrix);

    /* Codes of a row, and its scale: one float, or an exponent for each MX_BLOCK channels, 4 bytes in either case. BF16
       has none. */
    void (*convert[CONVERSIONS])(const float *row, void *codes, void *scale);

    /* FP8 codes of a row of BF16 codes times a factor for each channel. */
    void (*multiply)(const uint16_t *codes, const float *factors, void *products);
} qkv_arithmetic;

/* For the vector units that this processor has. */
const qkv_arithmetic *qkv_arithmetic_here(void);

/* One for each unit that the build knows, whether the processor has it or not. */
extern const qkv_arithmetic qkv_arithmetic_baseline;
#if defined(__x86_64__)
extern const qkv_arithmetic qkv_arithmetic_avx2;
extern const qkv_arithmetic qkv_arithmetic_avx512;
#endif

#endif
