/* SPDX-License-Identifier: Apache-2.0 */
#include "core/in_flight.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/race.h"

#define MOST 65536 /* beyond it, new uses are not remembered */

/* The newest call of an agent that uses the thing: who waited for it waited for the others too. */
typedef struct {
    sim_use use;
    sim_call *call;
    sim_use ahead[2]; /* what calls that may not have ended read of it, and write; no name for nothing */
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

/* With the lock. The usage of the thing by the agent, new or known; NULL when there is no room. */
static usage *find(const void *thing, size_t agent)
{
    for (size_t i = 0; i < count; ++i) {
        if (usages[i].use.thing == thing && usages[i].call->agent == agent) {
            return &usages[i];
        }
    }
    if (count == capacity) {
        const size_t wanted = capacity == 0 ? 64 : 2 * capacity;
        usage *more = wanted > MOST ? NULL : realloc(usages, wanted * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        usages = more;
        capacity = wanted;
    }
    usages[count] = (usage){.call = NULL};
    return &usages[count++];
}

static void look_ahead(sim_use *ahead, const sim_use *use)
{
    if (ahead->what == NULL) {
        *ahead = *use;
        return;
    }
    sim_span *all = &ahead->touches;
    all->start = use->touches.start < all->start ? use->touches.start : all->start;
    all->end = use->touches.end > all->end ? use->touches.end : all->end;
}

static void add(sim_call *call, sim_use use)
{
    use.thing = start_of(use.thing);
    usage *u = find(use.thing, call->agent);
    if (u == NULL) {
        return;
    }
    if (u->call != NULL) {
        if (sim_call_ended(u->call)) {
            memset(u->ahead, 0, sizeof u->ahead);
        }
        sim_call_drop(u->call);
    }
    u->use = use;
    u->call = sim_call_share(call);
    look_ahead(&u->ahead[use.is_written != 0], &use);
}

/* What the host or another stream did to memory that ends before the call has run: nobody will see the call there. */
static void foresee(const usage *u)
{
    for (int i = 0; i < 2; ++i) {
        sim_span touches = u->ahead[i].touches;
        if (touches.start < touches.end && !sim_call_ended(u->call)) {
            sim_race_foresee(u->call, &(sim_footprint){
                .what = u->ahead[i].what, .touch = i == 0 ? SIM_READS : SIM_WRITES, .count = 1, .spans = &touches});
        }
    }
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
            foresee(u);
        }
        drop(i);
    }
    sim_race_forget(thing, bytes);
    sim_order_unlock();
}
