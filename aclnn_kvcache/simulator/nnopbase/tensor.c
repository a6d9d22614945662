/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, changing and destroying tensors. Nothing about shape, bounds or type is checked here, as on CANN: an
   operator finds it out, or nobody does (observed.md, aclCreateTensor). */
#include "nnopbase/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "core/checks.h"
#include "core/export.h"
#include "core/faults.h"
#include "core/handle_report.h"
#include "nnopbase/arguments.h"
#include "opdev/op_errno.h"

static const int known_dtypes[] = {
    ACL_FLOAT,    ACL_FLOAT16, ACL_INT8,       ACL_INT32,       ACL_UINT8,         ACL_INT16,        ACL_UINT16,
    ACL_UINT32,   ACL_INT64,   ACL_UINT64,     ACL_DOUBLE,      ACL_BOOL,          ACL_STRING,       ACL_COMPLEX64,
    ACL_COMPLEX128, ACL_BF16,  ACL_INT4,       ACL_UINT1,       ACL_COMPLEX32,     ACL_HIFLOAT8,     ACL_FLOAT8_E5M2,
    ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0, ACL_FLOAT6_E3M2, ACL_FLOAT6_E2M3, ACL_FLOAT4_E2M1, ACL_FLOAT4_E1M2,
};

static const int known_formats[] = {
    ACL_FORMAT_NCHW,  ACL_FORMAT_NHWC,       ACL_FORMAT_ND,         ACL_FORMAT_NC1HWC0, ACL_FORMAT_FRACTAL_Z,
    ACL_FORMAT_NC1HWC0_C04, ACL_FORMAT_HWCN, ACL_FORMAT_NDHWC,      ACL_FORMAT_FRACTAL_NZ, ACL_FORMAT_NCDHW,
    ACL_FORMAT_NDC1HWC0, ACL_FRACTAL_Z_3D,   ACL_FORMAT_NC,         ACL_FORMAT_NCL,     ACL_FORMAT_FRACTAL_NZ_C0_16,
    ACL_FORMAT_FRACTAL_NZ_C0_32, ACL_FORMAT_FRACTAL_NZ_C0_2, ACL_FORMAT_FRACTAL_NZ_C0_4, ACL_FORMAT_FRACTAL_NZ_C0_8,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Numbers that CANN does not know come back as -1 (observed.md). */
static int known_or_undefined(int number, const int *known, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (known[i] == number) {
            return number;
        }
    }
    return -1;
}

static void set_attributes(sim_tensor *tensor, aclDataType dtype, const int64_t *strides, int64_t offset,
                           aclFormat format)
{
    tensor->dtype = (aclDataType)known_or_undefined((int)dtype, known_dtypes, COUNT(known_dtypes));
    tensor->format = (aclFormat)known_or_undefined((int)format, known_formats, COUNT(known_formats));
    tensor->offset = offset;
    if (strides == NULL) {
        sim_dense_strides(tensor, tensor->strides);
    } else {
        memcpy(tensor->strides, strides, sim_held_rank(tensor->rank) * sizeof *strides);
    }
}

static void set_view(sim_tensor *tensor, const int64_t *dims, uint64_t rank)
{
    if (rank != 0) {
        memcpy(tensor->dims, dims, sim_held_rank(rank) * sizeof *dims);
    }
    tensor->rank = rank;
}

static void set_storage(sim_tensor *tensor, const int64_t *dims, uint64_t rank)
{
    if (rank != 0) {
        memcpy(tensor->storage_dims, dims, sim_held_rank(rank) * sizeof *dims);
    }
    tensor->storage_rank = rank;
}

SIM_EXPORT aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                      const int64_t *stride, int64_t offset, aclFormat format,
                                      const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData)
{
    SIM_CALL(aclCreateTensor(
        viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData));
    if ((viewDims == NULL && viewDimsNum > 0) || (storageDims == NULL && storageDimsNum > 0)) {
        sim_null_argument(__func__, viewDims == NULL && viewDimsNum > 0 ? "viewDims" : "storageDims",
                          ACLNN_ERR_PARAM_NULLPTR);
        return NULL;
    }
    sim_tensor *tensor = calloc(1, sizeof *tensor);
    if (tensor == NULL) {
        return NULL;
    }
    if (viewDimsNum > SIM_MAX_RANK || storageDimsNum > SIM_MAX_RANK) {
        sim_report(SIM_CHECK_API, "too_many_dimensions", __func__,
                   "more than %u extents; the later ones are undefined: pass at most %u", SIM_MAX_RANK, SIM_MAX_RANK);
    }
    set_view(tensor, viewDims, viewDimsNum);
    set_storage(tensor, storageDims, storageDimsNum);
    set_attributes(tensor, dataType, stride, offset, format);
    tensor->base = tensorData;

    void *handle = sim_handle_create(SIM_TENSOR, tensor, __func__);
    if (handle == NULL) {
        free(tensor);
    }
    return handle;
}

SIM_EXPORT aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum,
                                     aclDataType dataType, const int64_t *stride, int64_t offset,
                                     aclFormat format, const int64_t *storageDims, uint64_t storageDimsNum,
                                     void *tensorDataAddr)
{
    SIM_CALL(aclInitTensor(
        tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
        tensorDataAddr));
    if (tensor == NULL) {
        return sim_null_argument(__func__, "tensor", ACLNN_ERR_PARAM_NULLPTR);
    }
    sim_tensor *object = sim_live_object(SIM_TENSOR, tensor, __func__, "tensor");
    if (object == NULL) {
        return ACLNN_ERR_INNER;
    }
    if (viewDims != NULL && viewDimsNum != 0) {
        set_view(object, viewDims, viewDimsNum);
    }
    if (storageDims != NULL && storageDimsNum != 0) {
        set_storage(object, storageDims, storageDimsNum);
    }
    set_attributes(object, dataType, stride, offset, format);
    if (tensorDataAddr != NULL) {
        object->base = tensorDataAddr;
    }
    return ACLNN_SUCCESS;
}

/* A second destroy answered 0 on CANN, which is luck: the object is freed (observed.md). */
SIM_EXPORT aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    SIM_CALL(aclDestroyTensor(tensor));
    if (tensor == NULL) {
        return ACLNN_SUCCESS;
    }
    sim_tensor *object = sim_handle_remove(SIM_TENSOR, tensor, __func__);
    if (object == NULL) {
        sim_report_handle(__func__, "tensor", SIM_TENSOR, tensor);
    }
    free(object);
    return ACLNN_SUCCESS;
}

SIM_EXPORT aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr)
{
    SIM_CALL(aclSetRawTensorAddr(tensor, addr));
    if (tensor == NULL) {
        return sim_null_argument(__func__, "tensor", ACLNN_ERR_PARAM_NULLPTR);
    }
    sim_tensor *object = sim_live_object(SIM_TENSOR, tensor, __func__, "tensor");
    if (object == NULL) {
        return ACLNN_ERR_INNER;
    }
    object->base = addr;
    return ACLNN_SUCCESS;
}
