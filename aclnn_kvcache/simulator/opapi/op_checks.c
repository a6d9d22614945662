/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_checks.h"

#include <stdio.h>

#include "core/checks.h"
#include "core/context.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/message.h"
#include "core/profile.h"
#include "core/untouched.h"
#include "opapi/op_tensor.h"
#include "opdev/op_errno.h"

#define INNER_ERROR "EZ9999", "AclNN_Inner_Error"

aclnnStatus op_check_outputs(const char *function, const uint64_t *workspace_size, aclOpExecutor *const *executor)
{
    sim_untouched_begin(function, executor);
    if (workspace_size == NULL || executor == NULL) {
        sim_message("EZ1001", "AclNN_Parameter_Error", "%s is nullptr",
                    workspace_size == NULL ? "workspaceSize" : "executor");
        return ACLNN_ERR_PARAM_NULLPTR;
    }
    return ACLNN_SUCCESS;
}

void op_scribble(uint64_t *workspace_size, aclOpExecutor **executor)
{
    if (workspace_size != NULL) {
        *workspace_size = 0xDEADBEEFDEADBEEF;
    }
    if (executor != NULL) {
        *executor = (aclOpExecutor *)0xDEADBEEFDEADBEE0;
    }
}

/* CANN would read freed memory; there is no answer of its own to give. */
aclnnStatus op_read_tensors(const char *function, const void *const *handles, size_t count,
                            const sim_tensor **tensors)
{
    for (size_t i = 0; i < count; i++) {
        tensors[i] = handles[i] == NULL ? NULL : sim_handle_get(SIM_TENSOR, handles[i]);
        if (tensors[i] == NULL && handles[i] != NULL) {
            char parameter[48];
            snprintf(parameter, sizeof parameter, "tensor argument %zu", i);
            sim_report_handle(function, parameter, SIM_TENSOR, handles[i]);
            sim_message(INNER_ERROR, "tensor argument %zu is no tensor", i);
            return ACLNN_ERR_INNER_NULLPTR;
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus op_check_view(const sim_tensor *tensor)
{
    if (tensor->offset > op_tensor_storage_elements(tensor)) {
        sim_message(INNER_ERROR, "a view begins at element %lld of a storage of %lld", (long long)tensor->offset,
                    (long long)op_tensor_storage_elements(tensor));
        return ACLNN_ERR_INNER_NULLPTR;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus op_check_device(const char *function, int32_t *device)
{
    const int error = sim_current_device(device);

    if (error != ACL_SUCCESS) {
        sim_report(SIM_CHECK_API, "no_device", function,
                   "this thread has no current device; each thread that makes calls sets its own, by aclrtSetDevice or "
                   "aclrtSetCurrentContext");
        sim_message(INNER_ERROR, "aclrtGetDevice failed with %d: this thread has no current device", error);
        return ACLNN_ERR_INNER_NULLPTR;
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus not_added(const char *function)
{
    sim_message_trace("%s: the kernel was not added to the executor (%d)", function, ACLNN_ERR_INNER_NULLPTR);
    return ACLNN_ERR_INNER_NULLPTR;
}

aclnnStatus op_check_kernels(const char *function)
{
    const sim_profile *profile = sim_profile_in_force();

    /* With a wrong profile there is no device, which is found before. */
    if (profile == NULL || !sim_profile_lacks_kernels(profile, function)) {
        return ACLNN_SUCCESS;
    }
    sim_message("EZ1013", "Config_Error", "the operator package that is installed has no kernels of %s for %s", function,
                profile->soc);
    sim_message_trace("%s: the lookup of the kernel failed (%d)", function, ACLNN_ERR_INNER);
    return not_added(function);
}

aclnnStatus op_tiling_failed(const char *function)
{
    sim_message_trace("%s: tiling of the kernel failed (%d)", function, ACLNN_ERR_INNER_TILING_ERROR);
    return not_added(function);
}
