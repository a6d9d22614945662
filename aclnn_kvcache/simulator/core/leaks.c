/* SPDX-License-Identifier: Apache-2.0 */
#include "core/leaks.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/checks.h"
#include "core/device.h"
#include "core/event.h"
#include "core/host_memory.h"
#include "core/memory.h"
#include "core/stream.h"

typedef struct {
    sim_origin origin;
    const char *kind;
    char what[64];
    int is_plural;   /* bytes, more than one */
    const char *end; /* what gives it back */
} leak;

typedef struct {
    leak *items;
    size_t count;
    size_t capacity;
} leaks;

static const struct {
    const char *kind;
    const char *what;
    const char *end;
} handles[SIM_KINDS] = {
    [SIM_CONTEXT] = {"leaked_context", "a context", "aclrtDestroyContext"},
    [SIM_STREAM] = {"leaked_stream", "a stream", "aclrtDestroyStream"},
    [SIM_STREAM_CONFIG] = {"leaked_stream_config", "a stream configuration", "aclrtDestroyStreamConfigHandle"},
    [SIM_EVENT] = {"leaked_event", "an event", "aclrtDestroyEvent"},
    [SIM_TENSOR] = {"leaked_tensor", "a tensor", "aclDestroyTensor"},
    [SIM_SCALAR] = {"leaked_scalar", "a scalar", "aclDestroyScalar"},
    [SIM_INT_ARRAY] = {"leaked_int_array", "an int array", "aclDestroyIntArray"},
    [SIM_FLOAT_ARRAY] = {"leaked_float_array", "a float array", "aclDestroyFloatArray"},
    [SIM_BOOL_ARRAY] = {"leaked_bool_array", "a bool array", "aclDestroyBoolArray"},
    [SIM_TENSOR_LIST] = {"leaked_tensor_list", "a tensor list", "aclDestroyTensorList"},
    [SIM_SCALAR_LIST] = {"leaked_scalar_list", "a scalar list", "aclDestroyScalarList"},
    [SIM_EXECUTOR] = {"leaked_executor", "an executor", "its phase 2 or aclDestroyAclOpExecutor"},
};

/* The next one, to be filled in; NULL when the host has no memory. */
static leak *add(leaks *all, const char *kind, sim_origin origin)
{
    if (all->count == all->capacity) {
        size_t capacity = all->capacity == 0 ? 64 : all->capacity * 2;
        leak *more = realloc(all->items, capacity * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        all->items = more;
        all->capacity = capacity;
    }
    leak *next = &all->items[all->count++];
    *next = (leak){.kind = kind, .origin = origin};
    return next;
}

static void add_memory(leaks *all, int32_t device)
{
    sim_memory_entry *entries;
    size_t count = sim_memory_list(device, &entries);
    for (size_t i = 0; i < count; ++i) {
        leak *l = add(all, "leaked_device_memory", entries[i].origin);
        if (l != NULL) {
            snprintf(l->what, sizeof l->what, "%zu bytes of device %d at %p", entries[i].bytes, device,
                (void *)entries[i].start);
            l->is_plural = entries[i].bytes != 1;
            l->end = "aclrtFree";
        }
    }
    free(entries);
}

static void add_host_memory(leaks *all)
{
    sim_host_range *ranges;
    size_t count = sim_host_list(&ranges);
    for (size_t i = 0; i < count; ++i) {
        int is_pinned = ranges[i].kind == SIM_HOST_PINNED;
        leak *l = add(all, is_pinned ? "leaked_host_memory" : "leaked_host_registration", ranges[i].origin);
        if (l != NULL) {
            snprintf(l->what, sizeof l->what, "%s%zu bytes of the host at %p", is_pinned ? "" : "a registration of ",
                ranges[i].bytes, (void *)ranges[i].start);
            l->is_plural = is_pinned && ranges[i].bytes != 1;
            l->end = is_pinned ? "aclrtFreeHost" : "aclrtHostUnregister";
        }
    }
    free(ranges);
}

static void add_handle(leaks *all, sim_kind kind, const sim_entry *entry)
{
    leak *l = entry->origin.function == NULL ? NULL : add(all, handles[kind].kind, entry->origin);
    if (l != NULL) {
        snprintf(l->what, sizeof l->what, "%s, %p,", handles[kind].what, entry->handle);
        l->end = handles[kind].end;
    }
}

static void leave_alone(void *object)
{
    (void)object;
}

static void add_handles(leaks *all, sim_kind kind)
{
    sim_entry *entries;
    size_t count = sim_handle_collect(kind, leave_alone, &entries);
    for (size_t i = 0; i < count; ++i) {
        add_handle(all, kind, &entries[i]);
    }
    free(entries);
}

static int is_among(const void *handle, const sim_entry *contexts, size_t count)
{
    size_t i = 0;
    while (i < count && contexts[i].handle != handle) {
        ++i;
    }
    return i < count;
}

static void add_streams(leaks *all, const sim_entry *contexts, size_t count)
{
    sim_entry *streams;
    size_t found = sim_handle_collect(SIM_STREAM, sim_stream_retain, &streams);
    for (size_t i = 0; i < found; ++i) {
        if (is_among(sim_stream_context(streams[i].object), contexts, count)) {
            add_handle(all, SIM_STREAM, &streams[i]);
        }
        sim_stream_release(streams[i].object);
    }
    free(streams);
}

static void add_events(leaks *all, const sim_entry *contexts, size_t count)
{
    sim_entry *events;
    size_t found = sim_handle_collect(SIM_EVENT, sim_event_retain, &events);
    for (size_t i = 0; i < found; ++i) {
        if (is_among(sim_event_context(events[i].object), contexts, count)) {
            add_handle(all, SIM_EVENT, &events[i]);
        }
        sim_event_release(events[i].object);
    }
    free(events);
}

static int by_number(const void *one, const void *other)
{
    const leak *a = one;
    const leak *b = other;
    return (a->origin.number > b->origin.number) - (a->origin.number < b->origin.number);
}

static void report(leaks *all, const char *function)
{
    if (all->count > 1) {
        qsort(all->items, all->count, sizeof *all->items, by_number);
    }
    for (size_t i = 0; i < all->count; ++i) {
        char origin[SIM_ORIGIN_BYTES];
        sim_origin_describe(&all->items[i].origin, origin);
        const leak *l = &all->items[i];
        sim_report(SIM_CHECK_LEAK, l->kind, function, "%s %s still there: %s; call %s before %s", l->what,
            l->is_plural ? "are" : "is", origin, l->end, function);
    }
    free(all->items);
}

void sim_leaks_report(const char *function)
{
    leaks all = {0};
    if (!sim_checking(SIM_CHECK_LEAK)) {
        return;
    }
    for (int32_t device = 0; device < SIM_MOST_DEVICES; ++device) {
        add_memory(&all, device);
    }
    add_host_memory(&all);
    for (int kind = 0; kind < SIM_KINDS; ++kind) {
        add_handles(&all, (sim_kind)kind);
    }
    report(&all, function);
}

void sim_leaks_report_reset(const char *function, const sim_entry *contexts, size_t count, int32_t device,
    int memory_ends)
{
    leaks all = {0};
    if (!sim_checking(SIM_CHECK_LEAK)) {
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        add_handle(&all, SIM_CONTEXT, &contexts[i]);
    }
    add_streams(&all, contexts, count);
    add_events(&all, contexts, count);
    if (memory_ends) {
        add_memory(&all, device);
    }
    report(&all, function);
}
