/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "acl/acl_base_rt.h"
#include "core/export.h"
#include "core/faults.h"

/* As CANN answers, not as wide as the types are: whatever is not listed is 8. */
static const struct {
    aclDataType type;
    size_t size;
} sizes[] = {
    {ACL_DT_UNDEFINED, 0},
    {ACL_FLOAT, 4},
    {ACL_FLOAT16, 2},
    {ACL_INT8, 1},
    {ACL_INT32, 4},
    {ACL_UINT8, 1},
    {ACL_INT16, 2},
    {ACL_UINT16, 2},
    {ACL_UINT32, 4},
    {ACL_INT64, 8},
    {ACL_UINT64, 8},
    {ACL_DOUBLE, 8},
    {ACL_BOOL, 1},
    {ACL_STRING, 0},
    {ACL_COMPLEX64, 8},
    {ACL_COMPLEX128, 16},
    {ACL_BF16, 2},
    {ACL_INT4, 1},
    {ACL_UINT1, 1},
    {ACL_COMPLEX32, 4},
    {ACL_HIFLOAT8, 1},
    {ACL_FLOAT8_E5M2, 1},
    {ACL_FLOAT8_E4M3FN, 1},
    {ACL_FLOAT8_E8M0, 1},
};

SIM_EXPORT size_t aclDataTypeSize(aclDataType dataType)
{
    SIM_CALL(aclDataTypeSize(dataType));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        if (sizes[i].type == dataType) {
            return sizes[i].size;
        }
    }
    return 8;
}

/* CANN reads the highest exponent as an ordinary one: there is no Inf and no NaN. */
SIM_EXPORT float aclFloat16ToFloat(aclFloat16 value)
{
    SIM_CALL(aclFloat16ToFloat(value));
    int exponent = value >> 10 & 0x1F;
    int fraction = value & 0x3FF;
    float magnitude = exponent == 0 ? ldexpf((float)fraction, -24) : ldexpf((float)(fraction + 0x400), exponent - 25);
    return value & 0x8000 ? -magnitude : magnitude;
}

/* To the nearest, ties to even, for 0 to 2^22: the sum's own rounding does it. */
static aclFloat16 round_even(float value)
{
    return (aclFloat16)((value + 0x1p23f) - 0x1p23f);
}

/* Rounds to even; finite values that are too large become the largest one. */
SIM_EXPORT aclFloat16 aclFloatToFloat16(float value)
{
    SIM_CALL(aclFloatToFloat16(value));
    aclFloat16 sign = signbit(value) ? 0x8000 : 0;
    float magnitude = fabsf(value);
    if (isnan(value)) {
        return sign | 0x7E00;
    }
    if (isinf(value)) {
        return sign | 0x7C00;
    }
    if (magnitude >= 65504.0f) {
        return sign | 0x7BFF;
    }
    if (magnitude < ldexpf(1.0f, -14)) {
        return sign | round_even(ldexpf(magnitude, 24));
    }
    int exponent;
    float significand = frexpf(magnitude, &exponent); /* 0.5 to 1 */
    int scaled = round_even(ldexpf(significand, 11)); /* 1024 to 2048 */
    return sign | (aclFloat16)(((exponent + 13) << 10) + scaled);
}
