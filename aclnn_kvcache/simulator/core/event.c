/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/checks.h"
#include "core/context.h"
#include "core/device.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/in_flight.h"
#include "core/monitor.h"
#include "core/report.h"
#include "core/schedule.h"
#include "core/untouched.h"

/* A record that was called, or that a wait expects. With the monitor's lock. */
typedef struct {
    int references;
    int called;
    int done;
    int64_t time_ns;
    sim_clock *mark; /* for the checks; set with done */
} record;

struct sim_event {
    atomic_int references; /* the handle, calls in progress, queued tasks */
    const void *context;
    int32_t device;
    uint32_t id;
    sim_event_family family;
    uint32_t flags;

    /* With the monitor's lock. */
    int destroyed;
    int forgotten;    /* nothing was recorded since the last reset */
    record *latest;   /* that was called; NULL before the first */
    record *expected; /* by waits that came before it; else NULL */
    uint64_t waits_issued;
    uint64_t waits_completed;
};

typedef struct {
    sim_event *event;
    sim_stream *stream;
    record *record; /* NULL where there is nothing to wait for */
    uint32_t seconds;
} event_task;

static atomic_int live[SIM_MOST_DEVICES];
static atomic_uint next_id;

void sim_event_retain(void *object)
{
    sim_event *event = object;
    atomic_fetch_add(&event->references, 1);
}

static void drop_record(record *r)
{
    if (r != NULL && --r->references == 0) {
        sim_order_drop_mark(r->mark);
        free(r);
    }
}

void sim_event_release(sim_event *event)
{
    if (event != NULL && atomic_fetch_sub(&event->references, 1) == 1) {
        sim_monitor_lock();
        drop_record(event->latest);
        drop_record(event->expected);
        sim_monitor_unlock();
        free(event);
    }
}

static aclError create(const char *function, const sim_context *context, sim_event_family family, uint32_t flags,
    aclrtEvent *handle)
{
    int32_t device = sim_context_device(context);
    if (atomic_fetch_add(&live[device], 1) >= SIM_EVENTS_PER_DEVICE) {
        atomic_fetch_sub(&live[device], 1);
        return sim_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, function, "device %d has %d events, which is all it can have",
            device, SIM_EVENTS_PER_DEVICE);
    }
    sim_event *event = calloc(1, sizeof *event);
    void *created = NULL;
    if (event != NULL) {
        atomic_init(&event->references, 1);
        event->context = sim_context_handle(context);
        event->device = device;
        event->family = family;
        event->flags = flags;
        event->id = atomic_fetch_add(&next_id, 1);
        created = sim_handle_create(SIM_EVENT, event, function);
    }
    if (created == NULL) {
        free(event);
        atomic_fetch_sub(&live[device], 1);
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for an event");
    }
    *handle = created;
    return ACL_SUCCESS;
}

const void *sim_event_context(const sim_event *event)
{
    return event->context;
}

aclError sim_event_create(const char *function, sim_event_family family, uint32_t flags, aclrtEvent *handle)
{
    sim_untouched_begin(function, handle);
    sim_context *context = sim_context_enter();
    if (context == NULL) {
        return sim_context_missing(function);
    }
    aclError code = create(function, context, family, flags, handle);
    sim_context_leave(context);
    if (code == ACL_SUCCESS) {
        sim_untouched_end();
    }
    return code;
}

aclError sim_event_acquire(const char *function, const char *parameter, aclrtEvent handle, sim_event **event)
{
    if (handle == NULL) {
        return sim_fail_null(function, parameter);
    }
    *event = sim_handle_acquire(SIM_EVENT, handle, sim_event_retain);
    if (*event == NULL) {
        sim_report_handle(function, parameter, SIM_EVENT, handle);
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, function,
            "%s is %p, which is no event or was destroyed; expected a live event", parameter, handle);
    }
    return ACL_SUCCESS;
}

/* Ends waits for records that can no longer be called; those that are queued still happen. */
static void retire(sim_event *event)
{
    sim_monitor_lock();
    event->destroyed = 1;
    sim_monitor_wake_and_unlock();
    atomic_fetch_sub(&live[event->device], 1);
    sim_event_release(event);
}

static void report_waits(const char *function, sim_event *event)
{
    sim_monitor_lock();
    const int is_expected = event->expected != NULL;
    sim_monitor_unlock();
    if (is_expected) {
        sim_report(SIM_CHECK_SYNC, "wait_without_record", function,
            "a stream waits for event %u, which is destroyed without ever having been recorded; on a device it waits for "
            "ever",
            event->id);
    }
}

aclError sim_event_destroy(const char *function, aclrtEvent handle)
{
    if (handle == NULL) {
        return sim_fail_null(function, "event");
    }
    sim_event *event = sim_handle_remove(SIM_EVENT, handle, function);
    if (event == NULL) {
        sim_report_handle(function, "event", SIM_EVENT, handle);
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, function,
            "event is %p, which is no event or was destroyed; expected a live event", handle);
    }
    sim_in_flight_end(function, "destroyed_in_flight", event, 1, "event %u", event->id);
    report_waits(function, event);
    retire(event);
    return ACL_SUCCESS;
}

void sim_events_close(const char *function, const void *context)
{
    sim_entry *events;
    size_t count = sim_handle_collect(SIM_EVENT, sim_event_retain, &events);
    for (size_t i = 0; i < count; ++i) {
        sim_event *event = events[i].object;
        if (event->context == context && sim_handle_remove(SIM_EVENT, events[i].handle, function) != NULL) {
            retire(event);
        }
        sim_event_release(event);
    }
    free(events);
}

sim_event_family sim_event_family_of(const sim_event *event)
{
    return event->family;
}

uint32_t sim_event_flags(const sim_event *event)
{
    return event->flags;
}

uint32_t sim_event_id(const sim_event *event)
{
    return event->id;
}

/* A record that is dropped counts as done, without a time: nobody may wait for it for ever. */
static void complete(record *r, int64_t time_ns)
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
    drop_record(task->record);
    sim_monitor_unlock();
    sim_event_release(task->event);
    free(task);
}

/* With the monitor's lock. */
static int must_wait(const void *arg)
{
    const event_task *task = arg;
    const record *r = task->record;
    return !r->done && !(task->event->destroyed && !r->called) && !atomic_load(sim_stream_dropped(task->stream));
}

static aclError run_wait(void *arg)
{
    event_task *task = arg;
    if (task->record == NULL) {
        return ACL_SUCCESS;
    }
    struct timespec deadline = sim_deadline((int64_t)task->seconds * 1000);
    const int expired = sim_stream_wait_while(task->stream, must_wait, task, task->seconds == 0 ? NULL : &deadline);
    sim_monitor_lock();
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
    drop_record(task->record);
    sim_monitor_unlock();
    sim_event_release(task->event);
    free(task);
}

/* A task about the event with room for a record that may be needed; NULL when the host has no memory. */
static event_task *new_task(sim_event *event, sim_stream *stream, record **spare)
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
static record *take(record **place, record **spare)
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
    const sim_use use = {"the event", task->event};
    const sim_task queued = {function, run, release, task, &use, 1};
    return sim_stream_submit(task->stream, queued, 0);
}

static aclError no_memory(const char *function)
{
    return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for a task");
}

aclError sim_event_record(const char *function, sim_event *event, sim_stream *stream)
{
    record *spare;
    event_task *task = new_task(event, stream, &spare);
    if (task == NULL) {
        return no_memory(function);
    }
    sim_monitor_lock();
    drop_record(event->latest);
    event->latest = take(&event->expected, &spare);
    event->expected = NULL;
    event->latest->called = 1;
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
    record *spare;
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
            "event %u was never recorded, so stream %d of device %d waits for nothing", event->id, sim_stream_id(stream),
            event->device);
    }
    return submit(function, run_wait, release_wait, task);
}

int sim_event_wait(sim_event *event, int32_t milliseconds)
{
    struct timespec deadline = sim_deadline(milliseconds);
    int done = 1;
    int expired = 0;
    sim_schedule_begin_wait();
    sim_monitor_lock();
    record *awaited = event->latest;
    if (awaited != NULL) {
        ++awaited->references;
        while (!awaited->done && !expired) {
            expired = sim_monitor_wait(milliseconds < 0 ? NULL : &deadline);
        }
        done = awaited->done;
        sim_order_host_after_mark(done ? awaited->mark : NULL);
        drop_record(awaited);
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
