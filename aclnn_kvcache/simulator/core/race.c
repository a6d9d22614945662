/* SPDX-License-Identifier: Apache-2.0 */
#include "core/race.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/overlap.h"

/* What is remembered at most. Beyond it the oldest goes, so that a race with it is missed. */
#define MOST_ENTRIES 4096
#define MOST_SPANS (1U << 20)

typedef struct entry entry;
struct entry {
    entry *older;
    entry *newer;
    sim_call *call;
    sim_footprint footprint;
};

/* With the lock of order.h. */
static entry *oldest;
static entry *newest;
static size_t entries;
static size_t spans;

static void drop(entry *e)
{
    *(e->older == NULL ? &oldest : &e->older->newer) = e->newer;
    *(e->newer == NULL ? &newest : &e->newer->older) = e->older;
    --entries;
    spans -= e->footprint.count;
    sim_call_drop(e->call);
    free(e->footprint.spans);
    free(e);
}

void sim_race_forget_all(void)
{
    while (oldest != NULL) {
        drop(oldest);
    }
}

void sim_race_prune(void)
{
    if (oldest == NULL) {
        return;
    }
    sim_clock *floor = sim_order_floor();
    for (entry *e = oldest; e != NULL;) {
        entry *next = e->newer;
        if (sim_clock_seen(floor, e->call->agent) >= e->call->at) {
            drop(e);
        }
        e = next;
    }
    sim_clock_drop(floor);
}

void sim_race_forget(const void *address, size_t bytes)
{
    const sim_span gone = {(uintptr_t)address, (uintptr_t)address + bytes};
    for (entry *e = oldest; e != NULL;) {
        entry *next = e->newer;
        sim_footprint *a = &e->footprint;
        size_t kept = 0;
        for (size_t i = 0; i < a->count; ++i) {
            if (a->spans[i].start >= gone.end || a->spans[i].end <= gone.start) {
                a->spans[kept++] = a->spans[i];
            }
        }
        spans -= a->count - kept;
        a->count = kept;
        if (kept == 0) {
            drop(e);
        }
        e = next;
    }
}

typedef struct {
    const sim_call *call;
    const sim_footprint *footprint;
    int is_ahead; /* it has yet to be done */
} deed;

static int is_write(const deed *d)
{
    return d->footprint->touch == SIM_WRITES;
}

static void describe(const deed *d, char *text, size_t bytes)
{
    char verb[16];
    snprintf(verb, sizeof verb, "%s%s", d->is_ahead ? "to be " : "", is_write(d) ? "written" : "read");
    if (d->call->is_host) {
        snprintf(text, bytes, "%s, %s by %s on the host", d->footprint->what, verb, d->call->function);
    } else {
        snprintf(text, bytes, "%s, %s by %s, call %" PRIu64 " of stream %d of device %d", d->footprint->what, verb,
            d->call->function, d->call->number, d->call->stream, d->call->device);
    }
}

/* About the one that was made later, whichever ran first. */
static void report(const deed *one, const deed *other, const sim_overlap *o)
{
    const deed *later = one->call->sequence > other->call->sequence ? one : other;
    const deed *earlier = later == one ? other : one;
    const int by_host = one->call->is_host || other->call->is_host;
    const int both_write = is_write(one) && is_write(other);
    const deed *host = later->call->is_host ? later : earlier;
    char texts[2][256];
    char place[SIM_OVERLAP_BYTES];
    char cure[128] = "record an event behind the one and let the stream of the other wait for it";
    describe(later, texts[0], sizeof texts[0]);
    describe(earlier, texts[1], sizeof texts[1]);
    sim_overlap_describe(o, place);
    if (by_host) {
        snprintf(cure, sizeof cure, "synchronise with stream %d first", (host == later ? earlier : later)->call->stream);
    }
    const sim_call *call = later->call;
    const sim_check_work before = sim_check_on_stream((sim_check_work){call->device, call->stream, call->thread, 0});
    sim_report(by_host ? SIM_CHECK_SYNC : SIM_CHECK_RACE,
        by_host ? is_write(host) ? "write_before_synchronise" : "read_before_synchronise"
                : both_write ? "unordered_writes" : "unordered_read_and_write",
        call->function, "%s, and %s, share %s; nothing orders the two, so a device may do either first, or both at once: %s",
        texts[0], texts[1], place, cure);
    sim_check_on_stream(before);
}

/* Whether the entry says nothing that the new one does not: whoever races with it and did not yet end, races with that
   too, as nobody can come after the one and before the other any more. */
static int is_replaced(const entry *e, const sim_call *call, const sim_footprint *footprint)
{
    return sim_call_before(e->call, call) &&
        (footprint->touch == SIM_WRITES || e->footprint.touch != SIM_WRITES) &&
        sim_overlap_is_whole(&e->footprint, footprint);
}

static void compare(const entry *e, const deed *d)
{
    const sim_call *call = d->call;
    const sim_footprint *footprint = d->footprint;
    const int ordered = sim_call_before(e->call, call) || sim_call_before(call, e->call) || e->call == call;
    if (!ordered && (footprint->touch == SIM_WRITES || e->footprint.touch == SIM_WRITES)) {
        const sim_overlap o = sim_overlap_of(&e->footprint, footprint);
        if (o.bytes != 0) {
            report(d, &(deed){e->call, &e->footprint, 0}, &o);
        }
    }
}

void sim_race_foresee(sim_call *call, const sim_footprint *footprint)
{
    for (const entry *e = newest; e != NULL && sim_call_watched(call); e = e->older) {
        compare(e, &(deed){call, footprint, 1});
    }
}

static void compare_all(sim_call *call, const sim_footprint *footprint)
{
    for (entry *e = newest; e != NULL;) {
        entry *older = e->older;
        compare(e, &(deed){call, footprint, 0});
        if (e->call != call && is_replaced(e, call, footprint)) {
            drop(e);
        }
        e = older;
    }
}

void sim_race_enter(sim_call *call, sim_footprint *footprint)
{
    entry *e = calloc(1, sizeof *e);
    if (e == NULL || footprint->count == 0 || !sim_call_watched(call)) {
        free(footprint->spans);
        free(e);
        return;
    }
    compare_all(call, footprint);
    *e = (entry){.older = newest, .call = sim_call_share(call), .footprint = *footprint};
    *(newest == NULL ? &oldest : &newest->newer) = e;
    newest = e;
    ++entries;
    spans += footprint->count;
    if (entries > MOST_ENTRIES || spans > MOST_SPANS) {
        sim_race_prune();
    }
    while (oldest != NULL && (entries > MOST_ENTRIES || spans > MOST_SPANS)) {
        drop(oldest);
    }
}
