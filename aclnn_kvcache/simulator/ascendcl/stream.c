/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stream.h"

#include "api.h"
#include "core/context.h"
#include "stream_config.h"

SIM_EXPORT aclError aclrtCreateStream(aclrtStream *stream)
{
    ENTER(aclrtCreateStream(stream));
    REQUIRE(stream);
    return sim_stream_create_here(__func__, 0, 0, stream);
}

SIM_EXPORT aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    ENTER(aclrtCreateStreamWithConfig(stream, priority, flag));
    REQUIRE(stream);
    return sim_stream_create_here(__func__, priority, flag, stream);
}

SIM_EXPORT aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle)
{
    ENTER(aclrtCreateStreamV2(stream, handle));
    REQUIRE(stream);
    REQUIRE(handle);
    aclrtStreamConfigHandle config;
    TRY(stream_config_read(__func__, handle, &config));
    return sim_stream_create_here(__func__, config.priority, (uint32_t)config.flag, stream);
}

SIM_EXPORT aclError aclrtDestroyStream(aclrtStream stream)
{
    ENTER(aclrtDestroyStream(stream));
    REQUIRE(stream);
    return sim_stream_destroy(__func__, stream, 0);
}

SIM_EXPORT aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    ENTER(aclrtDestroyStreamForce(stream));
    REQUIRE(stream);
    return sim_stream_destroy(__func__, stream, 1);
}

static aclError synchronize(const char *function, aclrtStream handle, int32_t milliseconds)
{
    sim_stream *stream;
    TRY(sim_stream_acquire(function, handle, SIM_ANY_CONTEXT, &stream));
    aclError status = sim_stream_synchronize(function, stream, milliseconds);
    sim_stream_release(stream);
    return status;
}

SIM_EXPORT aclError aclrtSynchronizeStream(aclrtStream stream)
{
    ENTER(aclrtSynchronizeStream(stream));
    return synchronize(__func__, stream, -1);
}

SIM_EXPORT aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    ENTER(aclrtSynchronizeStreamWithTimeout(stream, timeout));
    REQUIRE_TIMEOUT(timeout);
    return synchronize(__func__, stream, timeout);
}

SIM_EXPORT aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    ENTER(aclrtStreamQuery(stream, status));
    REQUIRE(status);
    sim_stream *found;
    TRY(sim_stream_acquire(__func__, stream, SIM_ANY_CONTEXT, &found));
    aclError result = sim_stream_check(__func__, found);
    if (result == ACL_SUCCESS) {
        *status = sim_stream_idle(found) ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    }
    sim_stream_release(found);
    return result;
}

SIM_EXPORT aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId)
{
    ENTER(aclrtStreamGetId(stream, streamId));
    REQUIRE(streamId);
    sim_stream *found;
    TRY(sim_stream_acquire(__func__, stream, SIM_ANY_CONTEXT, &found));
    *streamId = sim_stream_id(found);
    sim_stream_release(found);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority)
{
    ENTER(aclrtStreamGetPriority(stream, priority));
    REQUIRE(priority);
    sim_stream *found;
    TRY(sim_stream_acquire(__func__, stream, SIM_ANY_CONTEXT, &found));
    *priority = sim_stream_priority(found);
    sim_stream_release(found);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags)
{
    ENTER(aclrtStreamGetFlags(stream, flags));
    REQUIRE(flags);
    sim_stream *found;
    TRY(sim_stream_acquire(__func__, stream, SIM_ANY_CONTEXT, &found));
    *flags = sim_stream_flags(found);
    sim_stream_release(found);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode)
{
    ENTER(aclrtSetStreamFailureMode(stream, mode));
    REQUIRE(stream);
    if (mode > ACL_STOP_ON_FAILURE) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "mode is %llu; expected 0 or 1", (unsigned long long)mode);
    }
    sim_stream *found;
    TRY(sim_stream_acquire(__func__, stream, SIM_OWN_CONTEXT, &found));
    aclError status = sim_stream_check(__func__, found);
    if (status == ACL_SUCCESS) {
        sim_stream_stop_on_failure(found, mode == ACL_STOP_ON_FAILURE);
    }
    sim_stream_release(found);
    return status;
}

SIM_EXPORT aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
    ENTER(aclrtSetStreamOverflowSwitch(stream, flag));
    if (flag > 1) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag is %u; expected 0 or 1", flag);
    }
    sim_stream *found;
    TRY(sim_stream_acquire(__func__, stream, SIM_OWN_CONTEXT, &found));
    sim_stream_release(found);
    if (flag == 1) {
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "kernels do not report overflow");
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority)
{
    ENTER(aclrtDeviceGetStreamPriorityRange(leastPriority, greatestPriority));
    REQUIRE(leastPriority);
    REQUIRE(greatestPriority);
    *leastPriority = SIM_LOWEST_PRIORITY;
    *greatestPriority = 0;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtGetStreamAvailableNum(uint32_t *streamCount)
{
    ENTER(aclrtGetStreamAvailableNum(streamCount));
    REQUIRE(streamCount);
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    *streamCount = sim_streams_available(device);
    return ACL_SUCCESS;
}
