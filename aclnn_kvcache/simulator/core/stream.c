/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's queue and its worker. What callers do with streams is in stream_registry.c. */
#include "core/stream_object.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/checks.h"
#include "core/counters.h"
#include "core/exception.h"
#include "core/message.h"
#include "core/monitor.h"
#include "core/origin.h"
#include "core/report.h"
#include "core/schedule.h"

static _Thread_local int on_worker;

#define DETAIL_LINES 8

sim_stream *sim_stream_new(void)
{
    sim_stream *stream = calloc(1, sizeof *stream);
    if (stream != NULL) {
        atomic_init(&stream->references, 1);
        atomic_init(&stream->dropped, 0);
        stream->agent = sim_order_open();
        pthread_mutex_init(&stream->mutex, NULL);
        sim_condition_init(&stream->work);
        sim_condition_init(&stream->progress);
    }
    return stream;
}

void sim_stream_retain(void *object)
{
    sim_stream *stream = object;
    atomic_fetch_add(&stream->references, 1);
}

void sim_stream_release(sim_stream *stream)
{
    if (stream != NULL && atomic_fetch_sub(&stream->references, 1) == 1) {
        pthread_cond_destroy(&stream->work);
        pthread_cond_destroy(&stream->progress);
        pthread_mutex_destroy(&stream->mutex);
        free(stream->fault.detail);
        sim_order_close(stream->agent);
        free(stream);
    }
}

/* Called without the lock; the caller's mutex orders what follows. The first fault of several is the one reported. */
static void take_fault(sim_stream *stream, const sim_job *job, aclError code)
{
    const char *said = sim_message_take();
    char *detail = said == NULL ? NULL : strdup(said);
    pthread_mutex_lock(&stream->mutex);
    if (stream->fault.code == ACL_SUCCESS) {
        stream->fault.code = code;
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

/* A task that is planned to fail leaves its work undone, unless it shall fail behind it. */
static aclError run_task(const sim_stream *stream, const sim_job *job)
{
    const sim_fault *fault = &job->fault;
    if (fault->delay_us > 0) {
        sim_schedule_pause(stream, fault->delay_us);
    }
    aclError code = fault->is_failure && !fault->is_after ? ACL_SUCCESS : job->task.run(job->task.arg);
    if (!fault->is_failure) {
        return code;
    }
    sim_message("EZ9999", "Execution_Error", "%s: " SIM_FAULT_TEXT, job->task.name);
    return fault->status;
}

static void run_next(sim_stream *stream)
{
    sim_job *job = stream->first;
    pthread_mutex_unlock(&stream->mutex);
    sim_schedule_await(stream, job->ticket, job->id);
    pthread_mutex_lock(&stream->mutex);
    int run = !stream->stopped && !atomic_load(&stream->dropped);
    stream->first = job->next;
    if (stream->first == NULL) {
        stream->last = NULL;
    }
    pthread_mutex_unlock(&stream->mutex);
    sim_check_on_stream((sim_check_work){stream->device, stream->id, job->thread_id, job->queued_at});
    sim_order_begin(job->call);
    aclError code = run ? run_task(stream, job) : ACL_SUCCESS;
    if (code != ACL_SUCCESS) {
        take_fault(stream, job, code);
    }
    sim_message_drop(); /* nobody can ask this thread */
    job->task.release(job->task.arg);
    sim_order_end(job->call, !run || code != ACL_SUCCESS);
    free(job);
    pthread_mutex_lock(&stream->mutex);
    ++stream->completed;
    pthread_cond_broadcast(&stream->progress);
}

static void *work(void *argument)
{
    sim_stream *stream = argument;
    on_worker = 1;
    sim_calls_ignore();
    pthread_mutex_lock(&stream->mutex);
    while (stream->first != NULL || !stream->closing) {
        if (stream->first == NULL) {
            pthread_cond_wait(&stream->work, &stream->mutex);
        } else {
            run_next(stream);
        }
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

/* Signals belong to the program's own threads. */
static int start_worker(sim_stream *stream)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&stream->worker, NULL, work, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->started = !failed;
    return !failed;
}

/* With the lock held, so that the checks see calls in the order of the queue. */
static void watch(sim_stream *stream, sim_job *job)
{
    job->call = sim_order_queue(stream->agent, job->task.name, stream->device, stream->id, stream->submitted,
        job->thread_id);
    sim_in_flight_use(job->call, job->task.uses, job->task.use_count);
    sim_in_flight_use(job->call, &(sim_use){.what = "the stream", .thing = stream}, 1);
}

/* With the lock held; the status with which the job was not taken, else 0. */
static aclError append(sim_stream *stream, sim_job *job)
{
    if (stream->closing) {
        return ACL_ERROR_RT_INVALID_HANDLE;
    }
    if (stream->stopped) {
        return stream->fault.code;
    }
    if (!stream->started && !start_worker(stream)) {
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    }
    job->id = (uint32_t)++stream->submitted;
    job->queued_at = sim_tick();
    watch(stream, job);
    job->ticket = sim_schedule_ticket();
    if (stream->last == NULL) {
        stream->first = job;
    } else {
        stream->last->next = job;
    }
    stream->last = job;
    pthread_cond_signal(&stream->work);
    return ACL_SUCCESS;
}

/* Ends also when the worker waits for what only a later call can bring; one that was woken since is about to look. */
static void await_run(sim_stream *stream, uint64_t number)
{
    pthread_mutex_lock(&stream->mutex);
    while (stream->completed < number && stream->blocked != sim_monitor_wakes()) {
        pthread_cond_wait(&stream->progress, &stream->mutex);
    }
    pthread_mutex_unlock(&stream->mutex);
}

static void set_blocked(sim_stream *stream, uint64_t wakes)
{
    pthread_mutex_lock(&stream->mutex);
    stream->blocked = wakes;
    pthread_cond_broadcast(&stream->progress);
    pthread_mutex_unlock(&stream->mutex);
}

int sim_stream_wait_while(sim_stream *stream, int (*must_wait)(const void *arg), const void *arg,
    const struct timespec *deadline)
{
    int expired = 0;
    sim_monitor_lock();
    while (must_wait(arg) && !expired) {
        const uint64_t wakes = sim_monitor_wakes();
        sim_monitor_unlock();
        set_blocked(stream, wakes);
        sim_monitor_lock();
        while (sim_monitor_wakes() == wakes && !expired) {
            expired = sim_monitor_wait(deadline);
        }
    }
    sim_monitor_unlock();
    set_blocked(stream, 0);
    return expired;
}

aclError sim_stream_submit(sim_stream *stream, sim_task task, int is_kernel)
{
    sim_job *job = malloc(sizeof *job);
    aclError code = ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
    uint64_t number = 0;
    if (job != NULL) {
        *job = (sim_job){.task = task, .is_kernel = is_kernel, .thread_id = (uint32_t)gettid()};
        job->fault = sim_fault_of_task(task.name);
        pthread_mutex_lock(&stream->mutex);
        code = append(stream, job);
        number = stream->submitted;
        pthread_mutex_unlock(&stream->mutex);
    }
    if (code != ACL_SUCCESS) {
        free(job);
        task.release(task.arg);
        return sim_fail(code, task.name, "stream %d takes no more work", stream->id);
    }
    if (is_kernel) {
        sim_count(ACLSIM_KERNEL_LAUNCHES, 1);
    }
    if (sim_schedule_is_immediate() && !on_worker) {
        await_run(stream, number);
    }
    return ACL_SUCCESS;
}

aclError sim_stream_check(const char *function, sim_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    aclError code = stream->stopped ? stream->fault.code : ACL_SUCCESS;
    pthread_mutex_unlock(&stream->mutex);
    if (code != ACL_SUCCESS) {
        return sim_fail(code, function, "stream %d stopped on a failure of %s", stream->id, stream->fault.task);
    }
    return ACL_SUCCESS;
}

int sim_stream_wait(sim_stream *stream, const struct timespec *deadline)
{
    int expired = 0;
    pthread_mutex_lock(&stream->mutex);
    uint64_t target = stream->submitted;
    if (stream->completed >= target) {
        pthread_mutex_unlock(&stream->mutex);
        sim_order_host_after(stream->agent);
        return 1;
    }
    pthread_mutex_unlock(&stream->mutex);
    sim_schedule_begin_wait();
    pthread_mutex_lock(&stream->mutex);
    while (stream->completed < target && !expired) {
        if (deadline == NULL) {
            pthread_cond_wait(&stream->progress, &stream->mutex);
        } else {
            expired = pthread_cond_timedwait(&stream->progress, &stream->mutex, deadline) == ETIMEDOUT;
        }
    }
    expired = stream->completed < target;
    pthread_mutex_unlock(&stream->mutex);
    sim_schedule_end_wait();
    if (!expired) {
        sim_order_host_after(stream->agent);
    }
    return !expired;
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

int sim_stream_idle(sim_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    int idle = stream->completed == stream->submitted;
    pthread_mutex_unlock(&stream->mutex);
    if (idle) {
        sim_order_host_after(stream->agent);
    }
    sim_schedule_demand();
    return idle;
}

void sim_stream_stop_on_failure(sim_stream *stream, int stop)
{
    pthread_mutex_lock(&stream->mutex);
    stream->stop_on_failure = stop;
    pthread_mutex_unlock(&stream->mutex);
}

void sim_stream_close(sim_stream *stream, int drop_work)
{
    pthread_mutex_lock(&stream->mutex);
    stream->closing = 1;
    int started = stream->started;
    if (drop_work) {
        atomic_store(&stream->dropped, 1);
    }
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&stream->mutex);
    if (drop_work) {
        sim_monitor_lock();
        sim_monitor_wake_and_unlock();
    }
    if (started) {
        sim_schedule_begin_wait();
        pthread_join(stream->worker, NULL);
        sim_schedule_end_wait();
    }
    sim_order_host_after(stream->agent);
}

const atomic_int *sim_stream_dropped(const sim_stream *stream)
{
    return &stream->dropped;
}

const void *sim_stream_context(const sim_stream *stream)
{
    return stream->context;
}

int32_t sim_stream_device(const sim_stream *stream)
{
    return stream->device;
}

int32_t sim_stream_id(const sim_stream *stream)
{
    return stream->id;
}

uint32_t sim_stream_priority(const sim_stream *stream)
{
    return stream->priority;
}

uint32_t sim_stream_flags(const sim_stream *stream)
{
    return stream->flags;
}
