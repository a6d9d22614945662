/* SPDX-License-Identifier: Apache-2.0 */
#include "core/in_flight.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/memory.h"

#define MOST 65536 /* beyond it, new uses are not remembered */

/* The newest call of an agent that uses the thing: who waited for it waited for the others too. */
typedef struct {
    sim_use use;
    sim_call *call;
} usage;

/* With the lock of order.h. */
static usage *usages;
static size_t count;
static size_t capacity;

static void drop(size_t index)
{
    sim_call_drop(usages[index].call);
    usages[index] = usages[--count];
}

void sim_in_flight_forget_all(void)
{
    while (count > 0) {
        drop(count - 1);
    }
}

void sim_in_flight_prune(void)
{
    for (size_t i = count; i-- > 0;) {
        if (sim_call_awaited(usages[i].call)) {
            drop(i);
        }
    }
}

/* One address for all of an allocation. */
static const void *start_of(const void *thing)
{
    void *start;
    size_t bytes;
    return sim_memory_find(thing, &start, &bytes) ? start : thing;
}

static void add(sim_call *call, sim_use use)
{
    use.thing = start_of(use.thing);
    for (size_t i = 0; i < count; ++i) {
        if (usages[i].use.thing == use.thing && usages[i].call->agent == call->agent) {
            sim_call_drop(usages[i].call);
            usages[i] = (usage){use, sim_call_share(call)};
            return;
        }
    }
    if (count == capacity) {
        const size_t wanted = capacity == 0 ? 64 : 2 * capacity;
        usage *more = wanted > MOST ? NULL : realloc(usages, wanted * sizeof *more);
        if (more == NULL) {
            return;
        }
        usages = more;
        capacity = wanted;
    }
    usages[count++] = (usage){use, sim_call_share(call)};
}

void sim_in_flight_use(sim_call *call, const sim_use *uses, size_t use_count)
{
    if (call == NULL) {
        return;
    }
    sim_order_lock();
    for (size_t i = 0; sim_call_watched(call) && i < use_count; ++i) {
        if (uses[i].thing != NULL) {
            add(call, uses[i]);
        }
    }
    sim_order_unlock();
}

void sim_in_flight_end(const char *function, const char *kind, const void *thing, size_t bytes, const char *format, ...)
{
    if (!sim_order_watched()) {
        return;
    }
    char which[64];
    va_list values;
    va_start(values, format);
    vsnprintf(which, sizeof which, format, values);
    va_end(values);
    sim_order_lock();
    for (size_t i = count; i-- > 0;) {
        const usage *u = &usages[i];
        if ((uintptr_t)u->use.thing - (uintptr_t)thing >= bytes) {
            continue;
        }
        if (!sim_call_awaited(u->call)) {
            sim_report(SIM_CHECK_SYNC, kind, function,
                "%s is %s of %s, call %" PRIu64 " of stream %d of device %d, which the host did not wait for; a device "
                "may still be using it: synchronise with stream %d first",
                which, u->use.what, u->call->function, u->call->number, u->call->stream, u->call->device,
                u->call->stream);
        }
        drop(i);
    }
    sim_order_unlock();
}
