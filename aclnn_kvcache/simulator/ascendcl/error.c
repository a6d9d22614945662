/* SPDX-License-Identifier: Apache-2.0 */
#include "acl/acl_rt.h"
#include "api.h"
#include "core/exception.h"
#include "core/faults.h"
#include "core/message.h"

SIM_EXPORT const char *aclGetRecentErrMsg(void)
{
    SIM_CALL(aclGetRecentErrMsg());
    return sim_fault_message(sim_message_take());
}

static aclError check_level(const char *function, aclrtLastErrLevel level)
{
    if (level != ACL_RT_THREAD_LEVEL) {
        return sim_fail(ACL_ERROR_INVALID_PARAM, function, "level is %d; expected 0", (int)level);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    ENTER(aclrtPeekAtLastError(level));
    TRY(check_level(__func__, level));
    return sim_last_error();
}

SIM_EXPORT aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    ENTER(aclrtGetLastError(level));
    TRY(check_level(__func__, level));
    aclError last = sim_last_error();
    sim_last_error_clear();
    return last;
}

SIM_EXPORT aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
    ENTER(aclrtSetExceptionInfoCallback(callback));
    sim_exception_set_callback(callback);
    return ACL_SUCCESS;
}

SIM_EXPORT uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    SIM_CALL(aclrtGetTaskIdFromExceptionInfo(info));
    return info == NULL ? UINT32_MAX : info->task_id;
}

SIM_EXPORT uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    SIM_CALL(aclrtGetStreamIdFromExceptionInfo(info));
    return info == NULL ? UINT32_MAX : info->stream_id;
}

SIM_EXPORT uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    SIM_CALL(aclrtGetThreadIdFromExceptionInfo(info));
    return info == NULL ? UINT32_MAX : info->thread_id;
}

SIM_EXPORT uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    SIM_CALL(aclrtGetDeviceIdFromExceptionInfo(info));
    return info == NULL ? UINT32_MAX : info->device_id;
}

SIM_EXPORT uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo *info)
{
    SIM_CALL(aclrtGetErrorCodeFromExceptionInfo(info));
    return info == NULL ? UINT32_MAX : info->error_code;
}
