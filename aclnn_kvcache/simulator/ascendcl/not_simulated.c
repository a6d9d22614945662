/* SPDX-License-Identifier: Apache-2.0 */
/* What cannot be simulated faithfully fails, and says so. */
#include "acl/acl_rt.h"
#include "api.h"

/* The parameters are not looked at. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define NOT_SIMULATED(name, parameters, arguments, reason)                            \
    SIM_EXPORT aclError name parameters                                               \
    {                                                                                 \
        ENTER(name arguments);                                                        \
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, (reason)); \
    }

NOT_SIMULATED(aclrtDeviceTaskAbort, (int32_t deviceId, uint32_t timeout), (deviceId, timeout),
    "running work cannot be taken back")
NOT_SIMULATED(aclrtStreamAbort, (aclrtStream stream), (stream), "running work cannot be taken back")
NOT_SIMULATED(aclrtGetDeviceUtilizationRate, (int32_t deviceId, aclrtUtilizationInfo *utilizationInfo),
    (deviceId, utilizationInfo), "there are no cores to measure")
NOT_SIMULATED(aclrtGetMemUsageInfo,
    (int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum),
    (deviceId, memUsageInfo, inputNum, outputNum), "memory is not counted by module")
NOT_SIMULATED(aclrtGetErrorVerbose, (int32_t deviceId, aclrtErrorInfo *errorInfo), (deviceId, errorInfo),
    "hardware faults do not happen")
NOT_SIMULATED(aclrtRepairError, (int32_t deviceId, const aclrtErrorInfo *errorInfo), (deviceId, errorInfo),
    "hardware faults do not happen")
