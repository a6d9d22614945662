/* SPDX-License-Identifier: Apache-2.0 */
/* BF16: the upper half of a float. */
#ifndef ACLSIM_OPAPI_BF16_H_
#define ACLSIM_OPAPI_BF16_H_

#include <stdint.h>

/* Exact; NaN and Inf stay what they are. */
float bf16_to_float(uint16_t code);

/* To the nearest, ties to even; what is too large becomes Inf. A NaN stays one, made quiet. */
uint16_t bf16_from_float(float value);

#endif
