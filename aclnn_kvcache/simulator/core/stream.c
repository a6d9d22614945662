/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's queue and its worker. What callers do with streams is in stream_registry.c. */
#include "core/stream_object.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/checks.h"
#include "core/counters.h"
#include "core/message.h"
#include "core/monitor.h"
#include "core/origin.h"
#include "core/report.h"
#include "core/schedule.h"
#include "core/waits.h"

static _Thread_local int on_worker;

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
        sim_stream_take_fault(stream, job, code);
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
        stream->fault.is_heard = 1;
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

/* With the lock; 0 when time ran out. */
static int await(sim_stream *stream, uint64_t target, const struct timespec *deadline)
{
    int expired = 0;
    while (stream->completed < target && !expired) {
        if (deadline == NULL) {
            pthread_cond_wait(&stream->progress, &stream->mutex);
        } else {
            expired = pthread_cond_timedwait(&stream->progress, &stream->mutex, deadline) == ETIMEDOUT;
        }
    }
    return stream->completed >= target;
}

static int await_patiently(const char *function, sim_stream *stream, uint64_t target, const struct timespec *deadline)
{
    const struct timespec patience = sim_waits_patience(deadline);
    pthread_mutex_lock(&stream->mutex);
    int done = await(stream, target, &patience);
    if (!done) {
        pthread_mutex_unlock(&stream->mutex);
        sim_monitor_lock();
        sim_waits_report(function, stream);
        sim_monitor_unlock();
        pthread_mutex_lock(&stream->mutex);
        done = await(stream, target, deadline);
    }
    pthread_mutex_unlock(&stream->mutex);
    return done;
}

int sim_stream_wait(const char *function, sim_stream *stream, const struct timespec *deadline)
{
    pthread_mutex_lock(&stream->mutex);
    const uint64_t target = stream->submitted;
    int done = stream->completed >= target;
    pthread_mutex_unlock(&stream->mutex);
    if (!done) {
        sim_schedule_begin_wait();
        done = await_patiently(function, stream, target, deadline);
        sim_schedule_end_wait();
    }
    if (done) {
        sim_order_host_after(stream->agent);
    }
    return done;
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

void sim_stream_close(const char *function, sim_stream *stream, int drop_work)
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
    if (!drop_work) {
        sim_stream_wait(function, stream, NULL);
    }
    if (started) {
        pthread_join(stream->worker, NULL);
    }
    sim_order_host_after(stream->agent);
    sim_stream_report_unheard(function, stream);
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
