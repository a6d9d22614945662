/* SPDX-License-Identifier: Apache-2.0 */
#include "core/footprint.h"

#include <stdlib.h>
#include <string.h>

#include "core/race.h"

static _Thread_local struct {
    int is_collecting;
    sim_footprint *footprints;
    size_t count;
    size_t capacity;
    size_t newest; /* that was added to */
} collected;

void sim_footprint_begin(void)
{
    collected.is_collecting = 1;
}

int sim_footprint_is_wanted(void)
{
    return collected.is_collecting;
}

/* NULL when the host has no memory. */
static void *grow(void *items, size_t *capacity, size_t bytes)
{
    const size_t wanted = *capacity == 0 ? 8 : 2 * *capacity;
    void *more = realloc(items, wanted * bytes);
    if (more != NULL) {
        *capacity = wanted;
    }
    return more;
}

static int is_of(const sim_footprint *footprint, const char *what, sim_touch touch)
{
    return footprint->touch == touch && (footprint->what == what || strcmp(footprint->what, what) == 0);
}

static sim_footprint *find(const char *what, sim_touch touch)
{
    for (size_t i = 0; i < collected.count; ++i) {
        const size_t index = (collected.newest + i) % collected.count;
        if (is_of(&collected.footprints[index], what, touch)) {
            collected.newest = index;
            return &collected.footprints[index];
        }
    }
    if (collected.count == collected.capacity) {
        sim_footprint *more = grow(collected.footprints, &collected.capacity, sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        collected.footprints = more;
    }
    collected.newest = collected.count++;
    collected.footprints[collected.newest] = (sim_footprint){.what = what, .touch = touch};
    return &collected.footprints[collected.newest];
}

/* A span begins inside another of the same footprint. */
static void note_again(sim_footprint *footprint, const sim_span *span, const sim_span *other)
{
    const sim_span both = {span->start, span->end < other->end ? span->end : other->end};
    sim_overlap *again = &footprint->again;
    if (both.start < both.end) {
        if (again->ranges++ == 0 || both.start < again->first.start) {
            again->first = both;
        }
        again->bytes += both.end - both.start;
    }
}

void sim_footprint_note(const char *what, const void *address, size_t bytes, sim_touch touch)
{
    if (!collected.is_collecting || bytes == 0) {
        return;
    }
    sim_footprint *footprint = find(what, touch);
    if (footprint == NULL) {
        return;
    }
    const sim_span added = {(uintptr_t)address, (uintptr_t)address + bytes};
    sim_span *last = footprint->count == 0 ? NULL : &footprint->spans[footprint->count - 1];
    if (last != NULL && added.start >= last->start && added.start <= last->end) {
        note_again(footprint, &added, last);
        last->end = added.end > last->end ? added.end : last->end;
        return;
    }
    if (footprint->count == footprint->capacity) {
        sim_span *more = grow(footprint->spans, &footprint->capacity, sizeof *more);
        if (more == NULL) {
            return;
        }
        footprint->spans = more;
    }
    footprint->spans[footprint->count++] = added;
}

static int by_start(const void *one, const void *other)
{
    const sim_span *a = one;
    const sim_span *b = other;
    return (a->start > b->start) - (a->start < b->start);
}

static int is_tidy(const sim_footprint *footprint)
{
    for (size_t i = 1; i < footprint->count; ++i) {
        if (footprint->spans[i].start <= footprint->spans[i - 1].end) {
            return 0;
        }
    }
    return 1;
}

static void tidy(sim_footprint *footprint)
{
    if (is_tidy(footprint)) {
        return;
    }
    qsort(footprint->spans, footprint->count, sizeof *footprint->spans, by_start);
    size_t kept = 0;
    for (size_t i = 1; i < footprint->count; ++i) {
        sim_span *last = &footprint->spans[kept];
        const sim_span next = footprint->spans[i];
        if (next.start > last->end) {
            footprint->spans[++kept] = next;
        } else {
            note_again(footprint, &next, last);
            last->end = next.end > last->end ? next.end : last->end;
        }
    }
    footprint->count = kept + 1;
}

const sim_footprint *sim_footprints(size_t *count)
{
    for (size_t i = 0; i < collected.count; ++i) {
        tidy(&collected.footprints[i]);
    }
    *count = collected.count;
    return collected.footprints;
}

void sim_footprint_end(sim_call *call)
{
    for (size_t i = 0; i < collected.count; ++i) {
        tidy(&collected.footprints[i]);
        sim_race_enter(call, &collected.footprints[i]);
    }
    free(collected.footprints);
    memset(&collected, 0, sizeof collected);
}
