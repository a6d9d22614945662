/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_dtype.h"

static const struct {
    int dtype;
    const char *name;
} names[] = {
    {ACL_FLOAT, "FLOAT"},
    {ACL_FLOAT16, "FLOAT16"},
    {ACL_INT8, "INT8"},
    {ACL_INT32, "INT32"},
    {ACL_UINT8, "UINT8"},
    {ACL_INT16, "INT16"},
    {ACL_UINT16, "UINT16"},
    {ACL_UINT32, "UINT32"},
    {ACL_INT64, "INT64"},
    {ACL_UINT64, "UINT64"},
    {ACL_DOUBLE, "DOUBLE"},
    {ACL_BOOL, "BOOL"},
    {ACL_STRING, "STRING"},
    {ACL_COMPLEX64, "COMPLEX64"},
    {ACL_COMPLEX128, "COMPLEX128"},
    {ACL_BF16, "BF16"},
    {ACL_INT4, "INT4"},
    {ACL_UINT1, "UINT1"},
    {ACL_COMPLEX32, "COMPLEX32"},
    {ACL_HIFLOAT8, "HIFLOAT8"},
    {ACL_FLOAT8_E5M2, "FLOAT8_E5M2"},
    {ACL_FLOAT8_E4M3FN, "FLOAT8_E4M3FN"},
    {ACL_FLOAT8_E8M0, "FLOAT8_E8M0"},
    {ACL_FLOAT6_E3M2, "FLOAT6_E3M2"},
    {ACL_FLOAT6_E2M3, "FLOAT6_E2M3"},
    {ACL_FLOAT4_E2M1, "FLOAT4_E2M1"},
    {ACL_FLOAT4_E1M2, "FLOAT4_E1M2"},
};

const char *op_dtype_name(aclDataType dtype)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].dtype == (int)dtype) {
            return names[i].name;
        }
    }
    return "UNDEFINED";
}
