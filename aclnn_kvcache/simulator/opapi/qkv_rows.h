/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic on one head's row, each step rounded as device_arithmetic.md says and none fused with another.
   Divisions, roots and products follow IEEE 754, subnormals included; that the device may flush them is not copied. */
#ifndef ACLSIM_OPAPI_QKV_ROWS_H_
#define ACLSIM_OPAPI_QKV_ROWS_H_

#include <stdint.h>

#include "opapi/qkv.h"

/* Divides by the root of the mean square, then multiplies by gamma. */
void qkv_normalise(float row[HEAD_SIZE], const float gamma[HEAD_SIZE], float epsilon);

/* Turns the pairs (i, i + 64) by one row of the table: 64 cosines, then 64 sines. */
void qkv_turn(float row[HEAD_SIZE], const float cos_sin[HEAD_SIZE]);

/* Rounds the row to BF16 and multiplies it with the matrix, which holds BF16 values. */
void qkv_rotate(float row[HEAD_SIZE], const float matrix[HEAD_SIZE * HEAD_SIZE]);

/* FP8 codes of the row over its scale, which is returned. */
float qkv_quantise(const float row[HEAD_SIZE], uint8_t codes[HEAD_SIZE]);

/* FP8 codes of the row times a factor. */
void qkv_quantise_by(float factor, const float row[HEAD_SIZE], uint8_t codes[HEAD_SIZE]);

#endif
