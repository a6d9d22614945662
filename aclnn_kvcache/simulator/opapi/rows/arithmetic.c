/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled once for each VECTOR_UNIT (CMakeLists.txt). */
#include "opapi/qkv_rows.h"
#include "opapi/rows/norm.h"
#include "opapi/rows/quantise.h"
#include "opapi/rows/rotation.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define JOINED(stem, unit) stem##_##unit
#define NAMED(stem, unit) JOINED(stem, unit)

const qkv_arithmetic NAMED(qkv_arithmetic, VECTOR_UNIT) = {
    .unit = TEXT(VECTOR_UNIT),
    .turn = {[GAMMA_ON_ROW] = turn, [GAMMA_ON_ANGLES] = turn_folded},
    .rotate = rotate,
    .convert = {[TO_FP8] = to_fp8, [TO_INT8] = to_int8, [TO_MX] = to_mx, [TO_BF16] = to_bf16},
    .multiply = multiply,
};
