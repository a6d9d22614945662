/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

#include <stdatomic.h>

#include "api.h"
#include "core/checks.h"

#define KNOWN_FLAGS                                                                                         \
    (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_DEVICE_USE_ONLY | \
        ACL_EVENT_EXTERNAL | ACL_EVENT_IPC)
#define NOT_SIMULATED_FLAGS (ACL_EVENT_EXTERNAL | ACL_EVENT_IPC)

/* Seconds that a stream waits for an event when the call does not say; 0 is for ever. */
static atomic_uint wait_timeout;

SIM_EXPORT aclError aclrtCreateEvent(aclrtEvent *event)
{
    ENTER(aclrtCreateEvent(event));
    REQUIRE(event);
    return sim_event_create(__func__, SIM_EVENT_PLAIN, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, event);
}

static aclError create_with_flag(const char *function, sim_event_family family, aclrtEvent *event, uint32_t flag)
{
    if (flag == 0 || (flag & ~KNOWN_FLAGS) != 0) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "flag is 0x%x; expected one or more of 0x%x", flag,
            KNOWN_FLAGS);
    }
    if ((flag & NOT_SIMULATED_FLAGS) != 0) {
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function, "events shared with graphs or processes");
    }
    return sim_event_create(function, family, flag, event);
}

SIM_EXPORT aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    ENTER(aclrtCreateEventWithFlag(event, flag));
    REQUIRE(event);
    return create_with_flag(__func__, SIM_EVENT_WITH_FLAG, event, flag);
}

SIM_EXPORT aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    ENTER(aclrtCreateEventExWithFlag(event, flag));
    REQUIRE(event);
    return create_with_flag(__func__, SIM_EVENT_EX, event, flag);
}

SIM_EXPORT aclError aclrtDestroyEvent(aclrtEvent event)
{
    ENTER(aclrtDestroyEvent(event));
    return sim_event_destroy(__func__, event);
}

static aclError require_flag(const char *function, const sim_event *event, uint32_t flag, const char *name)
{
    if ((sim_event_flags(event) & flag) == 0) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "event has flags 0x%x; expected %s among them",
            sim_event_flags(event), name);
    }
    return ACL_SUCCESS;
}

static aclError refuse_ex(const char *function, const sim_event *event)
{
    if (sim_event_family_of(event) == SIM_EVENT_EX) {
        return sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function,
            "event was made by aclrtCreateEventExWithFlag; expected one of another kind");
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    ENTER(aclrtRecordEvent(event, stream));
    sim_event *found;
    sim_stream *target;
    TRY(sim_event_acquire(__func__, "event", event, &found));
    aclError status = sim_stream_acquire(__func__, stream, SIM_OWN_CONTEXT, &target);
    if (status == ACL_SUCCESS) {
        status = sim_event_record(__func__, found, target);
        sim_stream_release(target);
    }
    sim_event_release(found);
    return status;
}

static aclError reset(const char *function, sim_event *event, aclrtStream handle)
{
    sim_stream *stream;
    TRY(refuse_ex(function, event));
    TRY(require_flag(function, event, ACL_EVENT_SYNC, "ACL_EVENT_SYNC"));
    TRY(sim_stream_acquire(function, handle, SIM_OWN_CONTEXT, &stream));
    aclError status = sim_stream_check(function, stream);
    if (status == ACL_SUCCESS) {
        sim_event_reset(event);
    }
    sim_stream_release(stream);
    return status;
}

SIM_EXPORT aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    ENTER(aclrtResetEvent(event, stream));
    sim_event *found;
    TRY(sim_event_acquire(__func__, "event", event, &found));
    aclError status = reset(__func__, found, stream);
    if (status == ACL_SUCCESS && sim_event_family_of(found) == SIM_EVENT_PLAIN) {
        sim_report(SIM_CHECK_API, "event_not_resettable", __func__, "events of aclrtCreateEvent cannot be reset; make one by aclrtCreateEventWithFlag, or just record it again");
    }
    sim_event_release(found);
    return status;
}

SIM_EXPORT aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status)
{
    ENTER(aclrtQueryEvent(event, status));
    REQUIRE(status);
    sim_event *found;
    TRY(sim_event_acquire(__func__, "event", event, &found));
    aclError result = refuse_ex(__func__, found);
    if (result == ACL_SUCCESS) {
        *status = sim_event_done(found) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    }
    sim_event_release(found);
    return result;
}

SIM_EXPORT aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    ENTER(aclrtQueryEventStatus(event, status));
    REQUIRE(status);
    sim_event *found;
    TRY(sim_event_acquire(__func__, "event", event, &found));
    int nothing_to_wait_for = sim_event_family_of(found) == SIM_EVENT_EX && !sim_event_recorded(found);
    *status = nothing_to_wait_for || sim_event_done(found) ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                           : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    sim_event_release(found);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status)
{
    ENTER(aclrtQueryEventWaitStatus(event, status));
    REQUIRE(status);
    sim_event *found;
    TRY(sim_event_acquire(__func__, "event", event, &found));
    aclError result = refuse_ex(__func__, found);
    if (result == ACL_SUCCESS) {
        *status = sim_event_waits_done(found) ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    }
    sim_event_release(found);
    return result;
}

static aclError synchronize(const char *function, aclrtEvent handle, int32_t milliseconds)
{
    sim_event *event;
    TRY(sim_event_acquire(function, "event", handle, &event));
    aclError status = ACL_SUCCESS;
    if (!sim_event_recorded(event)) {
        sim_report(SIM_CHECK_SYNC, "wait_without_record", function,
            "event %u (%p) was never recorded, so there is nothing that the host waits for: record it first, on the stream "
            "to wait for", sim_event_id(event), sim_event_handle(event));
    }
    if (!sim_event_wait(function, event, milliseconds)) {
        status = sim_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, function, "the event was not done within %d ms",
            milliseconds);
    }
    sim_event_release(event);
    return status;
}

SIM_EXPORT aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    ENTER(aclrtSynchronizeEvent(event));
    return synchronize(__func__, event, -1);
}

SIM_EXPORT aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout)
{
    ENTER(aclrtSynchronizeEventWithTimeout(event, timeout));
    REQUIRE_TIMEOUT(timeout);
    return synchronize(__func__, event, timeout);
}

/* The time of an event that was recorded, is done and keeps time. */
static aclError read_time(const char *function, const char *parameter, aclrtEvent handle, int64_t *time_ns)
{
    sim_event *event;
    TRY(sim_event_acquire(function, parameter, handle, &event));
    aclError status = ACL_SUCCESS;
    if (sim_event_recorded(event) && !sim_event_awaited(event)) {
        sim_report(SIM_CHECK_SYNC, "time_before_synchronise", function,
            "%s, event %u (%p), is asked for its time, and the host did not wait for it; whether there is one depends on "
            "timing: synchronise with the event first",
            parameter, sim_event_id(event), sim_event_handle(event));
    }
    *time_ns = sim_event_time(event);
    if (!sim_event_recorded(event)) {
        status = sim_fail(ACL_ERROR_RT_INTERNAL_ERROR, function, "%s was never recorded", parameter);
    } else if ((sim_event_flags(event) & ACL_EVENT_TIME_LINE) == 0) {
        status = sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, function,
            "%s has flags 0x%x; expected ACL_EVENT_TIME_LINE among them", parameter, sim_event_flags(event));
    } else if (*time_ns == 0) {
        status = sim_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, function, "%s is recorded but not done", parameter);
    }
    sim_event_release(event);
    return status;
}

SIM_EXPORT aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    ENTER(aclrtEventElapsedTime(ms, startEvent, endEvent));
    REQUIRE(ms);
    int64_t start;
    int64_t end;
    TRY(read_time(__func__, "startEvent", startEvent, &start));
    TRY(read_time(__func__, "endEvent", endEvent, &end));
    if (end < start) {
        return FAIL(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "endEvent was done before startEvent");
    }
    *ms = (float)((double)(end - start) / 1e6);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
    ENTER(aclrtEventGetTimestamp(event, timestamp));
    REQUIRE(timestamp);
    int64_t time_ns;
    TRY(read_time(__func__, "event", event, &time_ns));
    *timestamp = (uint64_t)(time_ns / 1000);
    return ACL_SUCCESS;
}

static aclError delay(const char *function, aclrtStream handle, aclrtEvent event_handle, uint32_t seconds)
{
    sim_event *event;
    sim_stream *stream;
    TRY(sim_event_acquire(function, "event", event_handle, &event));
    aclError status = require_flag(function, event, ACL_EVENT_SYNC, "ACL_EVENT_SYNC");
    if (status == ACL_SUCCESS) {
        status = sim_stream_acquire(function, handle, SIM_OWN_CONTEXT, &stream);
    }
    if (status == ACL_SUCCESS) {
        status = sim_event_delay_stream(function, event, stream, seconds);
        sim_stream_release(stream);
    }
    sim_event_release(event);
    return status;
}

SIM_EXPORT aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    ENTER(aclrtStreamWaitEvent(stream, event));
    return delay(__func__, stream, event, atomic_load(&wait_timeout));
}

SIM_EXPORT aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout)
{
    ENTER(aclrtStreamWaitEventWithTimeout(stream, event, timeout));
    if (timeout < 0) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "timeout is %d; expected a number of seconds, or 0", timeout);
    }
    return delay(__func__, stream, event, (uint32_t)timeout);
}

SIM_EXPORT aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    ENTER(aclrtSetOpWaitTimeout(timeout));
    atomic_store(&wait_timeout, timeout);
    return ACL_SUCCESS;
}

/* No simulated kernel runs for as long as the shortest limit, so there is nothing to keep. */
SIM_EXPORT aclError aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    ENTER(aclrtSetOpExecuteTimeOut(timeout));
    (void)timeout;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId)
{
    ENTER(aclrtGetEventId(event, eventId));
    REQUIRE(eventId);
    sim_event *found;
    TRY(sim_event_acquire(__func__, "event", event, &found));
    *eventId = sim_event_id(found);
    sim_event_release(found);
    return ACL_SUCCESS;
}
