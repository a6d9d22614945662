/* SPDX-License-Identifier: Apache-2.0 */
/* Recording events, and waiting for records. */
#include <stdlib.h>

#include "core/checks.h"
#include "core/event_object.h"
#include "core/monitor.h"
#include "core/report.h"
#include "core/schedule.h"
#include "core/waits.h"

typedef struct {
    sim_event *event;
    sim_stream *stream;
    sim_record *record; /* NULL where there is nothing to wait for */
    uint32_t seconds;
} event_task;

void sim_record_drop(sim_record *record)
{
    if (record != NULL && --record->references == 0) {
        sim_order_drop_mark(record->mark);
        free(record);
    }
}

/* A record that is dropped counts as done, without a time: nobody may wait for it for ever. */
static void complete(sim_record *r, int64_t time_ns)
{
    sim_clock *mark = sim_order_mark();
    sim_monitor_lock();
    r->done = 1;
    r->time_ns = time_ns;
    r->mark = mark;
    sim_monitor_wake_and_unlock();
}

static aclError run_record(void *arg)
{
    event_task *task = arg;
    complete(task->record, sim_now_ns());
    return ACL_SUCCESS;
}

static void release_record(void *arg)
{
    event_task *task = arg;
    sim_monitor_lock();
    const int done = task->record->done;
    sim_monitor_unlock();
    if (!done) {
        complete(task->record, 0);
    }
    sim_monitor_lock();
    sim_record_drop(task->record);
    sim_monitor_unlock();
    sim_event_release(task->event);
    free(task);
}

/* With the monitor's lock. */
static int must_wait(const void *arg)
{
    const event_task *task = arg;
    const sim_record *r = task->record;
    return !r->done && !(task->event->destroyed && !r->called) && !atomic_load(sim_stream_dropped(task->stream));
}

static aclError run_wait(void *arg)
{
    event_task *task = arg;
    if (task->record == NULL) {
        return ACL_SUCCESS;
    }
    struct timespec deadline = sim_deadline((int64_t)task->seconds * 1000);
    sim_wait wait = {.stream = task->stream, .event = task->event, .record = task->record};
    sim_monitor_lock();
    sim_waits_begin(&wait);
    sim_monitor_unlock();
    const int expired = sim_stream_wait_while(task->stream, must_wait, task, task->seconds == 0 ? NULL : &deadline);
    sim_monitor_lock();
    sim_waits_end(&wait);
    sim_clock *mark = task->record->mark;
    sim_monitor_unlock();
    sim_order_after_mark(mark);
    return expired ? ACL_ERROR_RT_WAIT_TIMEOUT : ACL_SUCCESS;
}

static void release_wait(void *arg)
{
    event_task *task = arg;
    sim_monitor_lock();
    ++task->event->waits_completed;
    sim_record_drop(task->record);
    sim_monitor_unlock();
    sim_event_release(task->event);
    free(task);
}

/* A task about the event with room for a record that may be needed; NULL when the host has no memory. */
static event_task *new_task(sim_event *event, sim_stream *stream, sim_record **spare)
{
    event_task *task = calloc(1, sizeof *task);
    *spare = calloc(1, sizeof **spare);
    if (task == NULL || *spare == NULL) {
        free(task);
        free(*spare);
        return NULL;
    }
    sim_event_retain(event);
    task->event = event;
    task->stream = stream;
    return task;
}

/* With the monitor's lock: the record, if there is one, or else the spare one. */
static sim_record *take(sim_record **place, sim_record **spare)
{
    if (*place == NULL) {
        *place = *spare;
        (*place)->references = 1;
        *spare = NULL;
    }
    return *place;
}

static aclError submit(const char *function, aclError (*run)(void *arg), void (*release)(void *arg), event_task *task)
{
    const sim_use use = {.what = "the event", .thing = task->event};
    const sim_task queued = {function, run, release, task, &use, 1};
    return sim_stream_submit(task->stream, queued, 0);
}

static aclError no_memory(const char *function)
{
    return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for a task");
}

aclError sim_event_record(const char *function, sim_event *event, sim_stream *stream)
{
    sim_record *spare;
    event_task *task = new_task(event, stream, &spare);
    if (task == NULL) {
        return no_memory(function);
    }
    sim_monitor_lock();
    sim_record_drop(event->latest);
    event->latest = take(&event->expected, &spare);
    event->expected = NULL;
    event->latest->called = 1;
    event->latest->stream = stream;
    event->forgotten = 0;
    task->record = event->latest;
    ++task->record->references;
    sim_monitor_unlock();
    free(spare);
    return submit(function, run_record, release_record, task);
}

void sim_event_reset(sim_event *event)
{
    sim_monitor_lock();
    event->forgotten = 1;
    sim_monitor_unlock();
}

static int is_recorded(const sim_event *event)
{
    return event->latest != NULL && !event->forgotten;
}

aclError sim_event_delay_stream(const char *function, sim_event *event, sim_stream *stream, uint32_t seconds)
{
    sim_record *spare;
    event_task *task = new_task(event, stream, &spare);
    if (task == NULL) {
        return no_memory(function);
    }
    task->seconds = seconds;
    sim_monitor_lock();
    ++event->waits_issued;
    if (is_recorded(event)) {
        task->record = event->latest;
    } else if (event->family != SIM_EVENT_EX) {
        /* The older families wait for the device's event itself, so also for its first record yet to come. */
        task->record = take(&event->expected, &spare);
    }
    const int waits = task->record != NULL;
    if (waits) {
        ++task->record->references;
    }
    sim_monitor_unlock();
    free(spare);
    if (!waits) {
        sim_report(SIM_CHECK_SYNC, "wait_without_record", function,
            "event %u (%p) was never recorded, so stream %d of device %d waits for nothing: record it before the wait is "
            "queued",
            event->id, event->handle, sim_stream_id(stream), event->device);
    }
    return submit(function, run_wait, release_wait, task);
}

/* With the monitor's lock; 0 when time ran out. */
static int await(const sim_record *record, const struct timespec *deadline)
{
    int expired = 0;
    while (!record->done && !expired) {
        expired = sim_monitor_wait(deadline);
    }
    return record->done;
}

int sim_event_wait(const char *function, sim_event *event, int32_t milliseconds)
{
    const struct timespec end = sim_deadline(milliseconds);
    const struct timespec *deadline = milliseconds < 0 ? NULL : &end;
    const struct timespec patience = sim_waits_patience(deadline);
    int done = 1;
    sim_schedule_begin_wait();
    sim_monitor_lock();
    sim_record *awaited = event->latest;
    if (awaited != NULL) {
        ++awaited->references;
        done = await(awaited, &patience);
        if (!done) {
            sim_waits_report(function, awaited->stream);
            done = await(awaited, deadline);
        }
        sim_order_host_after_mark(done ? awaited->mark : NULL);
        sim_record_drop(awaited);
    }
    sim_monitor_unlock();
    sim_schedule_end_wait();
    return done;
}

int sim_event_recorded(sim_event *event)
{
    sim_monitor_lock();
    int recorded = is_recorded(event);
    sim_monitor_unlock();
    return recorded;
}

int sim_event_done(sim_event *event)
{
    sim_monitor_lock();
    int done = is_recorded(event) && event->latest->done;
    sim_order_host_after_mark(done ? event->latest->mark : NULL);
    sim_monitor_unlock();
    sim_schedule_demand();
    return done;
}

int sim_event_awaited(sim_event *event)
{
    sim_monitor_lock();
    const int awaited = is_recorded(event) && event->latest->done && sim_order_host_knows_mark(event->latest->mark);
    sim_monitor_unlock();
    return awaited;
}

int sim_event_waits_done(sim_event *event)
{
    sim_monitor_lock();
    int done = event->waits_completed == event->waits_issued;
    sim_monitor_unlock();
    sim_schedule_demand();
    return done;
}

int64_t sim_event_time(sim_event *event)
{
    sim_monitor_lock();
    int64_t time_ns = is_recorded(event) && event->latest->done ? event->latest->time_ns : 0;
    sim_monitor_unlock();
    sim_schedule_demand();
    return time_ns;
}
