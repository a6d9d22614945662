/* SPDX-License-Identifier: Apache-2.0 */
/* The saturating cast of the vector unit to FP8 (device_arithmetic.md, Instructions). */
#ifndef ACLSIM_OPAPI_FP8_H_
#define ACLSIM_OPAPI_FP8_H_

#include <stdint.h>

typedef struct {
    uint32_t mantissa_bits;
    uint32_t bias;
    uint8_t greatest; /* code of the greatest finite number */
} fp8_format;

extern const fp8_format fp8_e4m3fn;
extern const fp8_format fp8_e5m2;

/* To the nearest, ties to even, subnormals kept. Whatever is beyond the greatest finite number becomes it; NaN becomes
   +0; what is too small becomes a zero of its sign. */
uint8_t fp8_from_float(fp8_format format, float value);

#endif
