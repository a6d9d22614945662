/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of each tensor by itself. */
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/op_dtype.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv_messages.h"
#include "opapi/qkv_phase1.h"
#include "opdev/op_errno.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const int private_formats[] = {
    ACL_FORMAT_NC1HWC0,           ACL_FORMAT_FRACTAL_Z,        ACL_FORMAT_NC1HWC0_C04,      ACL_FORMAT_FRACTAL_NZ,
    ACL_FORMAT_NDC1HWC0,          ACL_FRACTAL_Z_3D,            ACL_FORMAT_FRACTAL_NZ_C0_16, ACL_FORMAT_FRACTAL_NZ_C0_32,
    ACL_FORMAT_FRACTAL_NZ_C0_2,   ACL_FORMAT_FRACTAL_NZ_C0_4,  ACL_FORMAT_FRACTAL_NZ_C0_8,
};

aclnnStatus qkv_check_empty(const sim_tensor *const tensors[QKV_TENSORS], qkv_order order)
{
    for (size_t i = 0; i < order.count; i++) {
        const qkv_tensor index = order.tensors[i];
        if (tensors[index] != NULL && op_tensor_is_empty(tensors[index])) {
            sim_message_solution(BAD_VALUE, "%s is empty", qkv_names[index]);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_check_dtypes(const sim_tensor *const tensors[QKV_TENSORS], qkv_order order,
                             const int dtypes[QKV_TENSORS])
{
    for (size_t i = 0; i < order.count; i++) {
        const qkv_tensor index = order.tensors[i];
        const aclDataType needed = (aclDataType)dtypes[index];
        if (tensors[index] != NULL && tensors[index]->dtype != needed) {
            sim_message_solution(BAD_DTYPE, "%s has data type %s but needs %s", qkv_names[index],
                                 op_dtype_name(tensors[index]->dtype), op_dtype_name(needed));
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

bool qkv_is_private(const sim_tensor *tensor)
{
    for (size_t i = 0; i < COUNT(private_formats); i++) {
        if ((int)tensor->format == private_formats[i]) {
            return true;
        }
    }
    return false;
}

aclnnStatus qkv_check_formats(const sim_tensor *const tensors[QKV_TENSORS], qkv_order order)
{
    for (size_t i = 0; i < order.count; i++) {
        const sim_tensor *tensor = tensors[order.tensors[i]];
        if (tensor != NULL && qkv_is_private(tensor)) {
            sim_message_solution(BAD_FORMAT, "%s has the private format %d", qkv_names[order.tensors[i]],
                                 (int)tensor->format);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

static const qkv_tensor caches[] = {K_CACHE, V_CACHE, K_SCALE_CACHE};

aclnnStatus qkv_check_offsets(const sim_tensor *const tensors[QKV_TENSORS])
{
    for (size_t i = 0; i < COUNT(caches); i++) {
        const int64_t offset = tensors[caches[i]]->offset;
        if (offset < 0) {
            sim_message("EZ9999", "AclNN_Inner_Error", "a view begins at element %lld of its storage",
                        (long long)offset);
            return ACLNN_ERR_INNER_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_check_views(const sim_tensor *const tensors[QKV_TENSORS])
{
    aclnnStatus status = ACLNN_SUCCESS;

    for (size_t i = 0; i < COUNT(caches) && status == ACLNN_SUCCESS; i++) {
        status = op_check_view(tensors[caches[i]]);
    }
    return status;
}

bool qkv_check_strides(const sim_tensor *cache, const char *name, const int64_t least[3])
{
    for (int axis = 0; axis < 4; axis++) {
        const int64_t stride = cache->strides[axis];
        if (axis == 3 ? stride != 1 : stride < least[axis]) {
            sim_message_solution(BAD_STRIDE, "stride %d of %s is %lld but must be %s%lld", axis, name,
                                 (long long)stride, axis == 3 ? "" : "at least ",
                                 (long long)(axis == 3 ? 1 : least[axis]));
            return false;
        }
    }
    return true;
}

bool qkv_share_strides(const sim_tensor *k_cache, const sim_tensor *v_cache)
{
    for (int axis = 0; axis < 3; axis++) {
        if (k_cache->strides[axis] != v_cache->strides[axis]) {
            sim_message_solution(BAD_VALUES, "stride %d of kCache and vCache must be the same but is %lld and %lld",
                                 axis, (long long)k_cache->strides[axis], (long long)v_cache->strides[axis]);
            return false;
        }
    }
    return true;
}
