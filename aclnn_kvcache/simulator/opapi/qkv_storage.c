/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 19 to 20 of the decision table (phase1_revision_a.md, fused operator): formats, and what copies and views ask of
   the storage. */
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv.h"
#include "opapi/qkv_messages.h"
#include "opdev/op_errno.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const int private_formats[] = {
    ACL_FORMAT_NC1HWC0,           ACL_FORMAT_FRACTAL_Z,        ACL_FORMAT_NC1HWC0_C04,      ACL_FORMAT_FRACTAL_NZ,
    ACL_FORMAT_NDC1HWC0,          ACL_FRACTAL_Z_3D,            ACL_FORMAT_FRACTAL_NZ_C0_16, ACL_FORMAT_FRACTAL_NZ_C0_32,
    ACL_FORMAT_FRACTAL_NZ_C0_2,   ACL_FORMAT_FRACTAL_NZ_C0_4,  ACL_FORMAT_FRACTAL_NZ_C0_8,
};

static const qkv_tensor caches[] = {K_CACHE, V_CACHE, K_SCALE_CACHE};

bool qkv_is_input(qkv_tensor tensor)
{
    for (size_t i = 0; i < COUNT(caches); i++) {
        if (caches[i] == tensor) {
            return false;
        }
    }
    return tensor != Q_OUT && tensor != Q_SCALE;
}

static aclnnStatus check_format(qkv_tensor index, const sim_tensor *tensor)
{
    for (size_t i = 0; i < COUNT(private_formats); i++) {
        if ((int)tensor->format == private_formats[i]) {
            sim_message_solution(BAD_FORMAT, "%s has the private format %d", qkv_names[index], private_formats[i]);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

/* Row 19a: only a copy looks at the whole of the storage. */
static aclnnStatus check_copy(qkv_tensor index, const sim_tensor *tensor)
{
    if (qkv_is_input(index) && !op_tensor_is_contiguous(tensor) && op_tensor_leaves_storage(tensor)) {
        sim_message("EZ1001", "AclNN_Parameter_Error", "input %d reaches outside its storage of %lld elements",
                    (int)index, (long long)op_tensor_storage_elements(tensor));
        return ACLNN_ERR_INNER_NULLPTR;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_check_storage(const sim_tensor *const tensors[QKV_TENSORS])
{
    aclnnStatus (*const checks[])(qkv_tensor, const sim_tensor *) = {check_format, check_copy};
    aclnnStatus status = ACLNN_SUCCESS;

    for (size_t check = 0; check < COUNT(checks); check++) {
        for (int i = 0; i < QKV_TENSORS && status == ACLNN_SUCCESS; i++) {
            status = checks[check]((qkv_tensor)i, tensors[i]);
        }
    }
    for (size_t i = 0; i < COUNT(caches) && status == ACLNN_SUCCESS; i++) {
        status = op_check_view(tensors[caches[i]]);
    }
    return status;
}
