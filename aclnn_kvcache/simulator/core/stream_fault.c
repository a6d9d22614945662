/* SPDX-License-Identifier: Apache-2.0 */
/* What failed on a stream, and who is told of it. */
#include <stdlib.h>
#include <string.h>

#include "core/checks.h"
#include "core/exception.h"
#include "core/message.h"
#include "core/report.h"
#include "core/stream_object.h"

#define DETAIL_LINES 8

/* Called without the lock; the caller's mutex orders what follows. The first fault of several is the one reported. */
void sim_stream_take_fault(sim_stream *stream, const sim_job *job, aclError code)
{
    const char *said = sim_message_take();
    char *detail = said == NULL ? NULL : strdup(said);
    pthread_mutex_lock(&stream->mutex);
    if (stream->fault.code == ACL_SUCCESS) {
        stream->fault.code = code;
        stream->fault.is_heard = 0;
        stream->fault.task = job->task.name;
        stream->fault.detail = detail;
        detail = NULL;
    }
    stream->stopped = stream->stop_on_failure;
    pthread_mutex_unlock(&stream->mutex);
    free(detail);
    if (job->is_kernel) {
        aclrtExceptionInfo info = {
            .task_id = job->id,
            .stream_id = (uint32_t)stream->id,
            .thread_id = job->thread_id,
            .device_id = (uint32_t)stream->device,
            .error_code = (uint32_t)code,
        };
        sim_exception_raise(&info);
    }
}

aclError sim_stream_check(const char *function, sim_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    aclError code = stream->stopped ? stream->fault.code : ACL_SUCCESS;
    stream->fault.is_heard |= stream->stopped;
    pthread_mutex_unlock(&stream->mutex);
    if (code != ACL_SUCCESS) {
        return sim_fail(code, function, "stream %d stopped on a failure of %s", stream->id, stream->fault.task);
    }
    return ACL_SUCCESS;
}

/* The newest messages of the worker, a line each. */
static void trace_detail(char *detail)
{
    for (int lines = 0; detail != NULL && lines < DETAIL_LINES;) {
        const char *line = strsep(&detail, "\n");
        line += strspn(line, " ");
        if (*line == '[') { /* which a message begins with, and no other line does */
            sim_message_trace("%s", line);
            ++lines;
        }
    }
}

/* In the default mode a fault is told once; a stream that stopped tells it for ever. */
aclError sim_stream_report_fault(const char *function, sim_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    aclError code = stream->fault.code;
    const char *task = stream->fault.task;
    char *detail = stream->fault.detail;
    stream->fault.detail = NULL;
    stream->fault.is_heard = 1;
    if (!stream->stopped) {
        stream->fault.code = ACL_SUCCESS;
    }
    pthread_mutex_unlock(&stream->mutex);
    if (code != ACL_SUCCESS) {
        sim_fail(code, function, "%s on stream %d of device %d failed", task, stream->id, stream->device);
        trace_detail(detail);
    }
    free(detail);
    return code;
}

void sim_stream_report_unheard(const char *function, sim_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    const aclError code = stream->fault.is_heard ? ACL_SUCCESS : stream->fault.code;
    const char *task = stream->fault.task;
    stream->fault.is_heard = 1;
    pthread_mutex_unlock(&stream->mutex);
    if (code != ACL_SUCCESS) {
        sim_report(SIM_CHECK_API, "unheard_fault", function,
            "%s on stream %d of device %d failed with %d, and no call has told: synchronise with the stream, and look at "
            "the status, before it ends",
            task, stream->id, stream->device, code);
    }
}
