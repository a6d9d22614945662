/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event_object.h"

#include <stdlib.h>

#include "core/checks.h"
#include "core/context.h"
#include "core/device.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/in_flight.h"
#include "core/monitor.h"
#include "core/report.h"
#include "core/untouched.h"

static atomic_int live[SIM_MOST_DEVICES];
static atomic_uint next_id;

void sim_event_retain(void *object)
{
    sim_event *event = object;
    atomic_fetch_add(&event->references, 1);
}

void sim_event_release(sim_event *event)
{
    if (event != NULL && atomic_fetch_sub(&event->references, 1) == 1) {
        sim_monitor_lock();
        sim_record_drop(event->latest);
        sim_record_drop(event->expected);
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
    *handle = event->handle = created;
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
            "a stream waits for event %u (%p), which is destroyed without ever having been recorded; on a device it waits "
            "for ever: record the event before the wait is queued",
            event->id, event->handle);
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
    sim_in_flight_end(function, "destroyed_in_flight", event, 1, "event %u (%p)", event->id, event->handle);
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

const void *sim_event_handle(const sim_event *event)
{
    return event->handle;
}

uint32_t sim_event_id(const sim_event *event)
{
    return event->id;
}
