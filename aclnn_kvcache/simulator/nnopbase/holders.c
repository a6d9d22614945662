/* SPDX-License-Identifier: Apache-2.0 */
#include "nnopbase/holders.h"

#include <stdlib.h>
#include <string.h>

#include "core/export.h"
#include "core/faults.h"
#include "core/handle_report.h"
#include "nnopbase/arguments.h"
#include "opdev/op_errno.h"

void *sim_holder_create(sim_kind kind, const void *values, uint64_t size, size_t item_bytes, const char *function)
{
    uint64_t held = values == NULL ? 0 : size;

    if (held > (SIZE_MAX - sizeof(sim_holder)) / item_bytes) {
        return NULL;
    }
    sim_holder *holder = malloc(sizeof *holder + held * item_bytes);
    if (holder == NULL) {
        return NULL;
    }
    holder->size = held;
    if (held != 0) {
        memcpy(holder->values, values, held * item_bytes);
    }
    void *handle = sim_handle_create(kind, holder, function);
    if (handle == NULL) {
        free(holder);
    }
    return handle;
}

sim_holder *sim_holder_remove(sim_kind kind, const void *handle, const char *function)
{
    if (handle == NULL) {
        return NULL;
    }
    sim_holder *holder = sim_handle_remove(kind, handle, function);
    if (holder == NULL) {
        sim_report_handle(function, "what is to be destroyed", kind, handle);
    }
    return holder;
}

static aclnnStatus destroy(sim_kind kind, const void *handle, const char *function)
{
    free(sim_holder_remove(kind, handle, function));
    return ACLNN_SUCCESS;
}

static aclnnStatus give_size(sim_kind kind, const void *handle, const char *parameter, uint64_t *size,
                             const char *function)
{
    if (handle == NULL || size == NULL) {
        return sim_null_argument(function, handle == NULL ? parameter : "size", ACLNN_ERR_PARAM_NULLPTR);
    }
    const sim_holder *holder = sim_live_object(kind, handle, function, parameter);
    if (holder == NULL) {
        return ACLNN_ERR_INNER;
    }
    *size = holder->size;
    return ACLNN_SUCCESS;
}

SIM_EXPORT aclIntArray *aclCreateIntArray(const int64_t *value, uint64_t size)
{
    SIM_CALL(aclCreateIntArray(value, size));
    return sim_holder_create(SIM_INT_ARRAY, value, size, sizeof *value, __func__);
}

SIM_EXPORT aclFloatArray *aclCreateFloatArray(const float *value, uint64_t size)
{
    SIM_CALL(aclCreateFloatArray(value, size));
    return sim_holder_create(SIM_FLOAT_ARRAY, value, size, sizeof *value, __func__);
}

SIM_EXPORT aclBoolArray *aclCreateBoolArray(const bool *value, uint64_t size)
{
    SIM_CALL(aclCreateBoolArray(value, size));
    return sim_holder_create(SIM_BOOL_ARRAY, value, size, sizeof *value, __func__);
}

SIM_EXPORT aclnnStatus aclDestroyIntArray(const aclIntArray *array)
{
    SIM_CALL(aclDestroyIntArray(array));
    return destroy(SIM_INT_ARRAY, array, __func__);
}

SIM_EXPORT aclnnStatus aclDestroyFloatArray(const aclFloatArray *array)
{
    SIM_CALL(aclDestroyFloatArray(array));
    return destroy(SIM_FLOAT_ARRAY, array, __func__);
}

SIM_EXPORT aclnnStatus aclDestroyBoolArray(const aclBoolArray *array)
{
    SIM_CALL(aclDestroyBoolArray(array));
    return destroy(SIM_BOOL_ARRAY, array, __func__);
}

SIM_EXPORT aclnnStatus aclGetIntArraySize(const aclIntArray *array, uint64_t *size)
{
    SIM_CALL(aclGetIntArraySize(array, size));
    return give_size(SIM_INT_ARRAY, array, "array", size, __func__);
}

SIM_EXPORT aclnnStatus aclGetFloatArraySize(const aclFloatArray *array, uint64_t *size)
{
    SIM_CALL(aclGetFloatArraySize(array, size));
    return give_size(SIM_FLOAT_ARRAY, array, "array", size, __func__);
}

SIM_EXPORT aclnnStatus aclGetBoolArraySize(const aclBoolArray *array, uint64_t *size)
{
    SIM_CALL(aclGetBoolArraySize(array, size));
    return give_size(SIM_BOOL_ARRAY, array, "array", size, __func__);
}

SIM_EXPORT aclnnStatus aclGetTensorListSize(const aclTensorList *tensorList, uint64_t *size)
{
    SIM_CALL(aclGetTensorListSize(tensorList, size));
    return give_size(SIM_TENSOR_LIST, tensorList, "tensorList", size, __func__);
}

SIM_EXPORT aclnnStatus aclGetScalarListSize(const aclScalarList *scalarList, uint64_t *size)
{
    SIM_CALL(aclGetScalarListSize(scalarList, size));
    return give_size(SIM_SCALAR_LIST, scalarList, "scalarList", size, __func__);
}
