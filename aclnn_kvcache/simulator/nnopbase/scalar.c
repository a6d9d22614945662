/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/export.h"
#include "core/faults.h"
#include "core/message.h"
#include "nnopbase/arguments.h"
#include "nnopbase/holders.h"
#include "opdev/op_errno.h"

/* The types a scalar can have and the bytes that are read for it (acl_abi 3.4); sub-byte types take one byte. */
static const struct {
    int dtype;
    size_t bytes;
} scalar_types[] = {
    {ACL_FLOAT, 4},         {ACL_FLOAT16, 2},      {ACL_INT8, 1},        {ACL_INT32, 4},       {ACL_UINT8, 1},
    {ACL_INT16, 2},         {ACL_UINT16, 2},       {ACL_UINT32, 4},      {ACL_INT64, 8},       {ACL_UINT64, 8},
    {ACL_DOUBLE, 8},        {ACL_BOOL, 1},         {ACL_COMPLEX64, 8},   {ACL_COMPLEX128, 16}, {ACL_BF16, 2},
    {ACL_HIFLOAT8, 1},      {ACL_FLOAT8_E5M2, 1},  {ACL_FLOAT8_E4M3FN, 1}, {ACL_FLOAT8_E8M0, 1}, {ACL_FLOAT6_E3M2, 1},
    {ACL_FLOAT6_E2M3, 1},   {ACL_FLOAT4_E2M1, 1},  {ACL_FLOAT4_E1M2, 1},
};

SIM_EXPORT aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    SIM_CALL(aclCreateScalar(value, dataType));
    if (value == NULL) {
        sim_null_argument(__func__, "value", ACLNN_ERR_PARAM_NULLPTR);
        return NULL;
    }
    for (size_t i = 0; i < sizeof scalar_types / sizeof scalar_types[0]; i++) {
        if (scalar_types[i].dtype == (int)dataType) {
            return sim_holder_create(SIM_SCALAR, value, scalar_types[i].bytes, 1, __func__);
        }
    }
    sim_message("EZ1006", "Not_Supported_Data_Type", "%s: no scalar can have data type %d", __func__, (int)dataType);
    return NULL;
}

SIM_EXPORT aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    SIM_CALL(aclDestroyScalar(scalar));
    free(sim_holder_remove(SIM_SCALAR, scalar, __func__));
    return ACLNN_SUCCESS;
}
