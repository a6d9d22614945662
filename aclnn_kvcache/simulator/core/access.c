/* SPDX-License-Identifier: Apache-2.0 */
#include "core/access.h"

#include <stdlib.h>
#include <string.h>

#include "core/race.h"

static _Thread_local struct {
    int is_collecting;
    sim_access *accesses;
    size_t count;
    size_t capacity;
    size_t newest; /* that was added to */
} collected;

int sim_access_wanted(void)
{
    return collected.is_collecting;
}

void sim_access_begin(sim_call *call)
{
    (void)call;
    collected.is_collecting = 1;
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

static int is_of(const sim_access *access, const char *what, int is_write)
{
    return access->is_write == is_write && (access->what == what || strcmp(access->what, what) == 0);
}

static sim_access *find(const char *what, int is_write)
{
    for (size_t i = 0; i < collected.count; ++i) {
        const size_t index = (collected.newest + i) % collected.count;
        if (is_of(&collected.accesses[index], what, is_write)) {
            collected.newest = index;
            return &collected.accesses[index];
        }
    }
    if (collected.count == collected.capacity) {
        sim_access *more = grow(collected.accesses, &collected.capacity, sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        collected.accesses = more;
    }
    collected.newest = collected.count++;
    collected.accesses[collected.newest] = (sim_access){.what = what, .is_write = is_write};
    return &collected.accesses[collected.newest];
}

void sim_access_note(const char *what, const void *address, size_t bytes, int is_write)
{
    if (!collected.is_collecting || bytes == 0) {
        return;
    }
    sim_access *access = find(what, is_write);
    if (access == NULL) {
        return;
    }
    const sim_span added = {(uintptr_t)address, (uintptr_t)address + bytes};
    sim_span *last = access->count == 0 ? NULL : &access->spans[access->count - 1];
    if (last != NULL && added.start >= last->start && added.start <= last->end) {
        last->end = added.end > last->end ? added.end : last->end;
        return;
    }
    if (access->count == access->capacity) {
        sim_span *more = grow(access->spans, &access->capacity, sizeof *more);
        if (more == NULL) {
            return;
        }
        access->spans = more;
    }
    access->spans[access->count++] = added;
}

static int by_start(const void *one, const void *other)
{
    const sim_span *a = one;
    const sim_span *b = other;
    return (a->start > b->start) - (a->start < b->start);
}

static int is_tidy(const sim_access *access)
{
    for (size_t i = 1; i < access->count; ++i) {
        if (access->spans[i].start <= access->spans[i - 1].end) {
            return 0;
        }
    }
    return 1;
}

static void tidy(sim_access *access)
{
    if (is_tidy(access)) {
        return;
    }
    qsort(access->spans, access->count, sizeof *access->spans, by_start);
    size_t kept = 0;
    for (size_t i = 1; i < access->count; ++i) {
        sim_span *last = &access->spans[kept];
        const sim_span next = access->spans[i];
        if (next.start > last->end) {
            access->spans[++kept] = next;
        } else if (next.end > last->end) {
            last->end = next.end;
        }
    }
    access->count = kept + 1;
}

void sim_access_end(sim_call *call)
{
    for (size_t i = 0; i < collected.count; ++i) {
        tidy(&collected.accesses[i]);
        sim_race_enter(call, &collected.accesses[i]);
    }
    free(collected.accesses);
    memset(&collected, 0, sizeof collected);
}
