/* SPDX-License-Identifier: Apache-2.0 */
#include "core/overlap.h"

#include <stdio.h>

#include "core/host_memory.h"
#include "core/memory.h"

sim_overlap sim_overlap_of(const sim_footprint *a, const sim_footprint *b)
{
    sim_overlap found = {0};
    if (a->count == 0 || b->count == 0 || a->spans[a->count - 1].end <= b->spans[0].start ||
        b->spans[b->count - 1].end <= a->spans[0].start) {
        return found;
    }
    for (size_t i = 0, j = 0; i < a->count && j < b->count;) {
        const sim_span one = a->spans[i];
        const sim_span other = b->spans[j];
        const sim_span both = {one.start > other.start ? one.start : other.start,
            one.end < other.end ? one.end : other.end};
        if (both.start < both.end) {
            if (found.ranges++ == 0) {
                found.first = both;
            }
            found.bytes += both.end - both.start;
        }
        if (one.end < other.end) {
            ++i;
        } else {
            ++j;
        }
    }
    return found;
}

int sim_overlap_is_whole(const sim_footprint *a, const sim_footprint *other)
{
    size_t j = 0;
    for (size_t i = 0; i < a->count; ++i) {
        while (j < other->count && other->spans[j].end < a->spans[i].end) {
            ++j;
        }
        if (j == other->count || other->spans[j].start > a->spans[i].start) {
            return 0;
        }
    }
    return 1;
}

void sim_overlap_describe(const sim_overlap *o, char text[SIM_OVERLAP_BYTES])
{
    const void *address = (const void *)o->first.start;
    const size_t length = o->first.end - o->first.start;
    void *start;
    size_t size;
    sim_host_kind kind;
    int used = snprintf(text, SIM_OVERLAP_BYTES, "%zu bytes in %zu range%s, first the %zu at %p", o->bytes, o->ranges,
        o->ranges == 1 ? "" : "s", length, address);
    if (sim_memory_find(address, &start, &size)) {
        snprintf(text + used, SIM_OVERLAP_BYTES - (size_t)used, ", byte %zu of the allocation of %zu bytes at %p",
            (size_t)((uintptr_t)address - (uintptr_t)start), size, start);
    } else if (sim_host_find(address, &size, &kind)) {
        snprintf(text + used, SIM_OVERLAP_BYTES - (size_t)used, " in host memory that the runtime knows");
    }
}
