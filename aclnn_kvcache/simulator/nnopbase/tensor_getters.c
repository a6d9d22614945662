/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/export.h"
#include "core/faults.h"
#include "nnopbase/arguments.h"
#include "nnopbase/tensor.h"
#include "opdev/op_errno.h"

/* The tensor, when it and what the caller wants filled are there; else NULL and the status to answer with. */
static const sim_tensor *readable(const char *function, const aclTensor *tensor, const void *out, const char *out_name,
                                  aclnnStatus *status)
{
    if (tensor == NULL || out == NULL) {
        *status = sim_null_argument(function, tensor == NULL ? "tensor" : out_name, ACLNN_ERR_PARAM_NULLPTR);
        return NULL;
    }
    const sim_tensor *object = sim_live_object(SIM_TENSOR, tensor, function, "tensor");
    *status = object == NULL ? ACLNN_ERR_INNER : ACLNN_SUCCESS;
    return object;
}

/* Where in a tensor an array and its count lie. */
typedef struct {
    size_t values;
    size_t count;
} array_place;

static const array_place view_shape = {offsetof(sim_tensor, dims), offsetof(sim_tensor, rank)};
static const array_place view_strides = {offsetof(sim_tensor, strides), offsetof(sim_tensor, rank)};
static const array_place storage_shape = {offsetof(sim_tensor, storage_dims), offsetof(sim_tensor, storage_rank)};

/* A copy that the caller frees, of one element at least. Extents that the tensor does not hold come out as 0; CANN
   gives garbage there. */
static aclnnStatus give_array(const char *function, const aclTensor *tensor, array_place place, int64_t **values,
                              uint64_t *count)
{
    aclnnStatus status;
    const sim_tensor *object = readable(function, tensor, (const void *)values, "array", &status);

    if (object == NULL || readable(function, tensor, count, "count", &status) == NULL) {
        return status;
    }
    uint64_t rank;
    memcpy(&rank, (const char *)object + place.count, sizeof rank);
    int64_t *copy = calloc(rank == 0 ? 1 : rank, sizeof *copy);
    if (copy == NULL) {
        return ACLNN_ERR_INNER;
    }
    memcpy(copy, (const char *)object + place.values, sim_held_rank(rank) * sizeof *copy);
    *values = copy;
    *count = rank;
    return ACLNN_SUCCESS;
}

SIM_EXPORT aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum)
{
    SIM_CALL(aclGetViewShape(tensor, viewDims, viewDimsNum));
    return give_array(__func__, tensor, view_shape, viewDims, viewDimsNum);
}

SIM_EXPORT aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims,
                                          uint64_t *storageDimsNum)
{
    SIM_CALL(aclGetStorageShape(tensor, storageDims, storageDimsNum));
    return give_array(__func__, tensor, storage_shape, storageDims, storageDimsNum);
}

SIM_EXPORT aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum)
{
    SIM_CALL(aclGetViewStrides(tensor, stridesValue, stridesNum));
    return give_array(__func__, tensor, view_strides, stridesValue, stridesNum);
}

SIM_EXPORT aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset)
{
    SIM_CALL(aclGetViewOffset(tensor, offset));
    aclnnStatus status;
    const sim_tensor *object = readable(__func__, tensor, offset, "offset", &status);

    if (object != NULL) {
        *offset = object->offset;
    }
    return status;
}

SIM_EXPORT aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format)
{
    SIM_CALL(aclGetFormat(tensor, format));
    aclnnStatus status;
    const sim_tensor *object = readable(__func__, tensor, format, "format", &status);

    if (object != NULL) {
        *format = object->format;
    }
    return status;
}

SIM_EXPORT aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType)
{
    SIM_CALL(aclGetDataType(tensor, dataType));
    aclnnStatus status;
    const sim_tensor *object = readable(__func__, tensor, dataType, "dataType", &status);

    if (object != NULL) {
        *dataType = object->dtype;
    }
    return status;
}

/* The storage's base as it was given; the offset is not added (acl_abi 3.4). */
SIM_EXPORT aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr)
{
    SIM_CALL(aclGetRawTensorAddr(tensor, addr));
    aclnnStatus status;
    const sim_tensor *object = readable(__func__, tensor, (const void *)addr, "addr", &status);

    if (object != NULL) {
        *addr = object->base;
    }
    return status;
}
