/* SPDX-License-Identifier: Apache-2.0 */
/* Lists hold their members' handles, NULL ones too, and destroying a list destroys the members (acl_abi 3.4). */
#include <stdlib.h>

#include "core/export.h"
#include "core/faults.h"
#include "nnopbase/holders.h"
#include "opdev/op_errno.h"

SIM_EXPORT aclTensorList *aclCreateTensorList(const aclTensor *const *value, uint64_t size)
{
    SIM_CALL(aclCreateTensorList(value, size));
    return sim_holder_create(SIM_TENSOR_LIST, (const void *)value, size, sizeof *value, __func__);
}

SIM_EXPORT aclScalarList *aclCreateScalarList(const aclScalar *const *value, uint64_t size)
{
    SIM_CALL(aclCreateScalarList(value, size));
    return sim_holder_create(SIM_SCALAR_LIST, (const void *)value, size, sizeof *value, __func__);
}

SIM_EXPORT aclnnStatus aclDestroyTensorList(const aclTensorList *array)
{
    SIM_CALL(aclDestroyTensorList(array));
    sim_holder *list = sim_holder_remove(SIM_TENSOR_LIST, array, __func__);
    const aclTensor *const *members = list == NULL ? NULL : (const void *)list->values;

    for (uint64_t i = 0; list != NULL && i < list->size; i++) {
        aclDestroyTensor(members[i]);
    }
    free(list);
    return ACLNN_SUCCESS;
}

SIM_EXPORT aclnnStatus aclDestroyScalarList(const aclScalarList *array)
{
    SIM_CALL(aclDestroyScalarList(array));
    sim_holder *list = sim_holder_remove(SIM_SCALAR_LIST, array, __func__);
    const aclScalar *const *members = list == NULL ? NULL : (const void *)list->values;

    for (uint64_t i = 0; list != NULL && i < list->size; i++) {
        aclDestroyScalar(members[i]);
    }
    free(list);
    return ACLNN_SUCCESS;
}
