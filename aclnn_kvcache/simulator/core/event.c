/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/device.h"
#include "core/handle.h"
#include "core/monitor.h"
#include "core/report.h"
#include "core/schedule.h"

struct sim_event {
    atomic_int references; /* the handle, calls in progress, queued tasks */
    const void *context;
    int32_t device;
    uint32_t id;
    sim_event_family family;
    uint32_t flags;

    /* With the monitor's lock. */
    int destroyed;
    uint64_t issued;    /* records called */
    uint64_t forgotten; /* records called before the last reset */
    uint64_t completed; /* the newest record that is done */
    int64_t time_ns;
    uint64_t waits_issued;
    uint64_t waits_completed;
};

typedef struct {
    sim_event *event;
    sim_stream *stream;
    uint64_t number;
    uint32_t seconds;
    int done;
} event_task;

static atomic_int live[SIM_MOST_DEVICES];
static atomic_uint next_id;

static void retain(void *object)
{
    sim_event *event = object;
    atomic_fetch_add(&event->references, 1);
}

void sim_event_release(sim_event *event)
{
    if (event != NULL && atomic_fetch_sub(&event->references, 1) == 1) {
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
        created = sim_handle_create(SIM_EVENT, event);
    }
    if (created == NULL) {
        free(event);
        atomic_fetch_sub(&live[device], 1);
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for an event");
    }
    *handle = created;
    return ACL_SUCCESS;
}

aclError sim_event_create(const char *function, sim_event_family family, uint32_t flags, aclrtEvent *handle)
{
    sim_context *context = sim_context_enter();
    if (context == NULL) {
        return sim_context_missing(function);
    }
    aclError code = create(function, context, family, flags, handle);
    sim_context_leave(context);
    return code;
}

aclError sim_event_acquire(const char *function, const char *parameter, aclrtEvent handle, sim_event **event)
{
    if (handle == NULL) {
        return sim_fail_null(function, parameter);
    }
    *event = sim_handle_acquire(SIM_EVENT, handle, retain);
    if (*event == NULL) {
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

aclError sim_event_destroy(const char *function, aclrtEvent handle)
{
    if (handle == NULL) {
        return sim_fail_null(function, "event");
    }
    sim_event *event = sim_handle_remove(SIM_EVENT, handle);
    if (event == NULL) {
        return sim_fail(ACL_ERROR_RT_INVALID_HANDLE, function,
            "event is %p, which is no event or was destroyed; expected a live event", handle);
    }
    retire(event);
    return ACL_SUCCESS;
}

void sim_events_close(const void *context)
{
    sim_entry *events;
    size_t count = sim_handle_collect(SIM_EVENT, retain, &events);
    for (size_t i = 0; i < count; ++i) {
        sim_event *event = events[i].object;
        if (event->context == context && sim_handle_remove(SIM_EVENT, events[i].handle) != NULL) {
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

static void complete(event_task *task, int64_t time_ns)
{
    sim_event *event = task->event;
    sim_monitor_lock();
    if (task->number > event->completed) {
        event->completed = task->number;
        event->time_ns = time_ns;
    }
    sim_monitor_wake_and_unlock();
    task->done = 1;
}

static aclError run_record(void *arg)
{
    complete(arg, sim_now_ns());
    return ACL_SUCCESS;
}

/* A record that is dropped counts as done, without a time: nobody may wait for it for ever. */
static void release_record(void *arg)
{
    event_task *task = arg;
    if (!task->done) {
        complete(task, 0);
    }
    sim_event_release(task->event);
    free(task);
}

/* With the monitor's lock. */
static int must_wait(const event_task *task)
{
    const sim_event *event = task->event;
    return event->completed < task->number && !(event->destroyed && event->issued < task->number) &&
        !atomic_load(sim_stream_dropped(task->stream));
}

static aclError run_wait(void *arg)
{
    event_task *task = arg;
    struct timespec deadline = sim_deadline((int64_t)task->seconds * 1000);
    int expired = 0;
    sim_monitor_lock();
    int is_blocked = must_wait(task);
    sim_monitor_unlock();
    if (!is_blocked) {
        return ACL_SUCCESS;
    }
    sim_stream_block(task->stream, 1);
    sim_monitor_lock();
    while (!expired && must_wait(task)) {
        expired = sim_monitor_wait(task->seconds == 0 ? NULL : &deadline);
    }
    sim_monitor_unlock();
    sim_stream_block(task->stream, 0);
    return expired ? ACL_ERROR_RT_WAIT_TIMEOUT : ACL_SUCCESS;
}

static void release_wait(void *arg)
{
    event_task *task = arg;
    sim_monitor_lock();
    ++task->event->waits_completed;
    sim_monitor_unlock();
    sim_event_release(task->event);
    free(task);
}

static event_task *new_task(sim_event *event, sim_stream *stream)
{
    event_task *task = calloc(1, sizeof *task);
    if (task != NULL) {
        retain(event);
        task->event = event;
        task->stream = stream;
    }
    return task;
}

aclError sim_event_record(const char *function, sim_event *event, sim_stream *stream)
{
    event_task *task = new_task(event, stream);
    if (task == NULL) {
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for a task");
    }
    sim_monitor_lock();
    task->number = ++event->issued;
    sim_monitor_unlock();
    return sim_stream_submit(stream, (sim_task){function, run_record, release_record, task}, 0);
}

void sim_event_reset(sim_event *event)
{
    sim_monitor_lock();
    event->forgotten = event->issued;
    sim_monitor_unlock();
}

aclError sim_event_delay_stream(const char *function, sim_event *event, sim_stream *stream, uint32_t seconds)
{
    event_task *task = new_task(event, stream);
    if (task == NULL) {
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for a task");
    }
    task->seconds = seconds;
    sim_monitor_lock();
    ++event->waits_issued;
    task->number = event->issued;
    /* The older families wait for the device's event itself, so also for its first record yet to come. */
    if (event->issued == event->forgotten) {
        task->number = event->family == SIM_EVENT_EX ? 0 : event->issued + 1;
    }
    sim_monitor_unlock();
    return sim_stream_submit(stream, (sim_task){function, run_wait, release_wait, task}, 0);
}

int sim_event_wait(sim_event *event, int32_t milliseconds)
{
    struct timespec deadline = sim_deadline(milliseconds);
    int expired = 0;
    sim_schedule_begin_wait();
    sim_monitor_lock();
    uint64_t target = event->issued;
    while (event->completed < target && !expired) {
        expired = sim_monitor_wait(milliseconds < 0 ? NULL : &deadline);
    }
    int done = event->completed >= target;
    sim_monitor_unlock();
    sim_schedule_end_wait();
    return done;
}

int sim_event_recorded(sim_event *event)
{
    sim_monitor_lock();
    int recorded = event->issued > event->forgotten;
    sim_monitor_unlock();
    return recorded;
}

int sim_event_done(sim_event *event)
{
    sim_monitor_lock();
    int done = event->issued > event->forgotten && event->completed >= event->issued;
    sim_monitor_unlock();
    sim_schedule_demand();
    return done;
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
    int64_t time_ns = event->issued > event->forgotten && event->completed >= event->issued ? event->time_ns : 0;
    sim_monitor_unlock();
    sim_schedule_demand();
    return time_ns;
}
