/* SPDX-License-Identifier: Apache-2.0 */
/* The callback that hears of kernel faults. */
#ifndef ACLSIM_CORE_EXCEPTION_H_
#define ACLSIM_CORE_EXCEPTION_H_

#include "acl/acl_rt.h"
#include "core/export.h"

struct aclrtExceptionInfo {
    uint32_t task_id;
    uint32_t stream_id;
    uint32_t thread_id; /* of the thread that launched the kernel */
    uint32_t device_id;
    uint32_t error_code;
};

SIM_EXPORT void sim_exception_set_callback(aclrtExceptionInfoCallback callback);

/* Called on the worker thread of the faulting stream. */
void sim_exception_raise(aclrtExceptionInfo *info);

#endif
