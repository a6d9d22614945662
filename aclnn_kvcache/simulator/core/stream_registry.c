/* SPDX-License-Identifier: Apache-2.0 */
/* Streams as callers know them: by handle, context and device. */
#include <stdlib.h>

#include "core/checks.h"
#include "core/context.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/monitor.h"
#include "core/process.h"
#include "core/report.h"
#include "core/stream_object.h"
#include "core/untouched.h"

/* The worker of such a stream is driven from the device: synchronising it answers at once. */
#define NOT_SYNCHRONISED (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

static atomic_int live[SIM_MOST_DEVICES];
static atomic_int next_id[SIM_MOST_DEVICES];

/* Ending a stream waits for its work, but the program is to do that before. Who drops the work knows of it. */
static void report_work(const char *function, const char *kind, const sim_stream *stream)
{
    sim_in_flight_end(function, kind, stream, 1, "stream %d of device %d", stream->id,
        stream->device);
}

static void retire(const char *function, sim_stream *stream, int drop_work)
{
    sim_stream_close(function, stream, drop_work);
    atomic_fetch_sub(&live[stream->device], 1);
    if (!stream->is_default) {
        sim_count(ACLSIM_LIVE_STREAMS, -1);
    }
    sim_stream_release(stream);
}

aclError sim_stream_create(const char *function, const void *context, int32_t device, int is_default, uint32_t priority,
    uint32_t flags, aclrtStream *handle)
{
    if (atomic_fetch_add(&live[device], 1) >= SIM_STREAMS_PER_DEVICE) {
        atomic_fetch_sub(&live[device], 1);
        return sim_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, function, "device %d has %d streams, which is all it can have",
            device, SIM_STREAMS_PER_DEVICE);
    }
    sim_stream *stream = sim_stream_new();
    void *created = NULL;
    if (stream != NULL) {
        stream->context = context;
        stream->device = device;
        stream->is_default = is_default;
        stream->priority = priority < SIM_LOWEST_PRIORITY ? priority : SIM_LOWEST_PRIORITY;
        stream->flags = flags;
        stream->id = atomic_fetch_add(&next_id[device], 1);
        created = sim_handle_create(SIM_STREAM, stream, is_default ? NULL : function);
    }
    if (created == NULL) {
        sim_stream_release(stream);
        atomic_fetch_sub(&live[device], 1);
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for a stream");
    }
    if (!is_default) {
        sim_count(ACLSIM_LIVE_STREAMS, 1);
    }
    *handle = created;
    return ACL_SUCCESS;
}

aclError sim_stream_create_here(const char *function, uint32_t priority, uint32_t flags, aclrtStream *handle)
{
    sim_untouched_begin(function, handle);
    sim_context *context = sim_context_enter();
    if (context == NULL) {
        return sim_context_missing(function);
    }
    aclError code = sim_stream_create(function, sim_context_handle(context), sim_context_device(context), 0, priority,
        flags, handle);
    sim_context_leave(context);
    if (code == ACL_SUCCESS) {
        sim_untouched_end();
    }
    return code;
}

aclError sim_stream_acquire(const char *function, aclrtStream handle, sim_stream_scope scope, sim_stream **stream)
{
    if (sim_process_forked()) {
        return sim_fail_forked(function);
    }
    *stream = NULL;
    sim_context *context = NULL;
    if (handle == NULL || scope == SIM_OWN_CONTEXT) {
        context = sim_context_current();
        if (context == NULL) {
            return sim_context_missing(function);
        }
    }
    const void *own = context == NULL ? NULL : sim_context_handle(context);
    aclrtStream wanted = handle != NULL ? handle : sim_context_default_stream(context);
    sim_context_release(context);
    sim_stream *found = sim_handle_acquire(SIM_STREAM, wanted, sim_stream_retain);
    if (found == NULL) {
        sim_report_handle(function, "stream", SIM_STREAM, handle);
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, function,
            "stream is %p, which is no stream or was destroyed; expected a live stream or NULL", handle);
    }
    if (scope == SIM_OWN_CONTEXT && found->context != own) {
        sim_report(SIM_CHECK_API, "stream_of_another_context", function,
            "stream %d of device %d belongs to context %p, and this thread's is %p: make the stream's current first, by "
            "aclrtSetCurrentContext",
            found->id, found->device, found->context, own);
        sim_fail(ACL_ERROR_RT_STREAM_CONTEXT, function, "stream %d of device %d belongs to context %p; current is %p",
            found->id, found->device, found->context, own);
        sim_stream_release(found);
        return ACL_ERROR_RT_STREAM_CONTEXT;
    }
    *stream = found;
    return ACL_SUCCESS;
}

aclError sim_stream_enqueue(aclrtStream stream, sim_task task, int is_kernel)
{
    sim_stream *target;
    aclError code = sim_stream_acquire(task.name, stream, SIM_OWN_CONTEXT, &target);
    if (code != ACL_SUCCESS) {
        task.release(task.arg);
        return code;
    }
    code = sim_stream_submit(target, task, is_kernel);
    sim_stream_release(target);
    return code;
}

aclError sim_stream_destroy(const char *function, aclrtStream handle, int drop_work)
{
    sim_stream *stream;
    aclError code = sim_stream_acquire(function, handle, SIM_OWN_CONTEXT, &stream);
    if (code != ACL_SUCCESS) {
        return code;
    }
    if (stream->is_default) {
        code = sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
            "stream is a default stream; expected one that was created");
    } else if (sim_handle_remove(SIM_STREAM, handle, function) == NULL) {
        code = sim_fail(ACL_ERROR_RT_INVALID_HANDLE, function, "another thread destroyed stream %p", handle);
    } else {
        if (!drop_work) {
            report_work(function, "destroyed_in_flight", stream);
        }
        retire(function, stream, drop_work);
    }
    sim_stream_release(stream);
    return code;
}

void sim_streams_close(const char *function, const void *context, int drop_work)
{
    sim_entry *streams;
    size_t count = sim_handle_collect(SIM_STREAM, sim_stream_retain, &streams);
    for (size_t i = 0; i < count; ++i) {
        sim_stream *stream = streams[i].object;
        if (stream->context == context && sim_handle_remove(SIM_STREAM, streams[i].handle, function) != NULL) {
            if (!drop_work) {
                report_work(function, "destroyed_in_flight", stream);
            }
            retire(function, stream, drop_work);
        }
        sim_stream_release(stream);
    }
    free(streams);
}

void sim_streams_report_end(const char *function, const char *kind)
{
    sim_entry *streams;
    size_t count = sim_handle_collect(SIM_STREAM, sim_stream_retain, &streams);
    for (size_t i = 0; i < count; ++i) {
        sim_stream *stream = streams[i].object;
        sim_stream_report_unheard(function, stream);
        report_work(function, kind, stream);
        sim_stream_release(stream);
    }
    free(streams);
}

static aclError expired(const char *function, int32_t milliseconds)
{
    return sim_fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, function, "work was not done within %d ms", milliseconds);
}

aclError sim_stream_synchronize(const char *function, sim_stream *stream, int32_t milliseconds)
{
    if ((stream->flags & NOT_SYNCHRONISED) != 0) {
        return ACL_SUCCESS;
    }
    struct timespec deadline = sim_deadline(milliseconds);
    if (!sim_stream_wait(function, stream, milliseconds < 0 ? NULL : &deadline)) {
        return expired(function, milliseconds);
    }
    return sim_stream_report_fault(function, stream);
}

aclError sim_streams_synchronize(const char *function, int32_t device, int32_t milliseconds)
{
    struct timespec deadline = sim_deadline(milliseconds);
    sim_entry *streams;
    size_t count = sim_handle_collect(SIM_STREAM, sim_stream_retain, &streams);
    aclError code = ACL_SUCCESS;
    for (size_t i = 0; i < count; ++i) {
        sim_stream *stream = streams[i].object;
        int waited_for = stream->device == device && (stream->flags & NOT_SYNCHRONISED) == 0;
        if (code == ACL_SUCCESS && waited_for) {
            code = sim_stream_wait(function, stream, milliseconds < 0 ? NULL : &deadline) ? ACL_SUCCESS
                                                                                : expired(function, milliseconds);
        }
    }
    for (size_t i = 0; i < count; ++i) {
        sim_stream *stream = streams[i].object;
        if (code == ACL_SUCCESS && stream->device == device) {
            code = sim_stream_report_fault(function, stream);
        }
        sim_stream_release(stream);
    }
    free(streams);
    return code;
}

uint32_t sim_streams_available(int32_t device)
{
    int count = atomic_load(&live[device]);
    return count < SIM_STREAMS_PER_DEVICE ? (uint32_t)(SIM_STREAMS_PER_DEVICE - count) : 0;
}
