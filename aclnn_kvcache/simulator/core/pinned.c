/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pinned.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checks.h"

#define GUARD 64 /* on either side; keeps the alignment that CANN promises */
#define PATTERN 0x6B
#define KEPT 64
#define LARGEST_KEPT (1 << 20)

typedef struct {
    sim_host_range range;
    const char *freed_by; /* NULL in a place that is free */
} freed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static freed kept[KEPT]; /* a ring */
static unsigned oldest;

void *sim_pinned_allocate(size_t bytes)
{
    void *start;
    if (bytes > SIZE_MAX - 2 * GUARD || posix_memalign(&start, GUARD, bytes + 2 * GUARD) != 0) {
        return NULL;
    }
    memset(start, PATTERN, GUARD);
    memset((char *)start + GUARD + bytes, PATTERN, GUARD);
    return (char *)start + GUARD;
}

static void describe(const sim_host_range *range, char text[SIM_ORIGIN_BYTES + 64])
{
    char origin[SIM_ORIGIN_BYTES];
    sim_origin_describe(&range->origin, origin);
    snprintf(text, SIM_ORIGIN_BYTES + 64, "the %zu bytes at %p (%s)", range->bytes, (void *)range->start, origin);
}

static void report_guard(const char *function, const sim_host_range *range, size_t distance, const char *side,
    uintptr_t at)
{
    char what[SIM_ORIGIN_BYTES + 64];
    describe(range, what);
    sim_report(SIM_CHECK_MEM, "guard_overwritten", function,
        "somebody wrote to %p, %zu bytes %s %s; look for a size that is told too large", (void *)at, distance, side,
        what);
}

static void inspect(const char *function, const sim_host_range *range)
{
    const unsigned char *front = (const unsigned char *)range->start - GUARD;
    const unsigned char *behind = (const unsigned char *)range->start + range->bytes;
    size_t good = 0;
    while (good < GUARD && front[GUARD - 1 - good] == PATTERN) {
        ++good;
    }
    if (good < GUARD) {
        report_guard(function, range, good + 1, "in front of", range->start - 1 - good);
    }
    for (good = 0; good < GUARD && behind[good] == PATTERN; ++good) {
    }
    if (good < GUARD) {
        report_guard(function, range, good, "behind", (uintptr_t)behind + good);
    }
}

static void give_back(const sim_host_range *range)
{
    free((char *)range->start - GUARD);
}

void sim_pinned_free(const char *function, const sim_host_range *range)
{
    if (!sim_checking(SIM_CHECK_MEM)) {
        give_back(range);
        return;
    }
    inspect(function, range);
    freed gone = {*range, function};
    if (range->bytes <= LARGEST_KEPT) {
        pthread_mutex_lock(&lock);
        const freed next = gone;
        gone = kept[oldest];
        kept[oldest] = next;
        oldest = (oldest + 1) % KEPT;
        pthread_mutex_unlock(&lock);
    }
    if (gone.freed_by != NULL) {
        give_back(&gone.range);
    }
}

int sim_host_report_freed(const char *function, const char *kind, const char *parameter, const void *address)
{
    freed found = {.freed_by = NULL};
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < KEPT && found.freed_by == NULL; ++i) {
        if (kept[i].freed_by != NULL && (uintptr_t)address - kept[i].range.start < kept[i].range.bytes) {
            found = kept[i];
        }
    }
    pthread_mutex_unlock(&lock);
    if (found.freed_by == NULL) {
        return 0;
    }
    char what[SIM_ORIGIN_BYTES + 64];
    describe(&found.range, what);
    sim_report(SIM_CHECK_MEM, kind, function,
        "%s is %p, byte %zu of %s, which %s freed: free memory once, behind the last work on it", parameter, address,
        (size_t)((uintptr_t)address - found.range.start), what, found.freed_by);
    return 1;
}
