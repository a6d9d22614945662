/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory_check.h"

#include <stdio.h>
#include <string.h>

#include "core/arena.h"
#include "core/checks.h"
#include "core/memory.h"

/* What is known of an address: the block that holds it, in use or freed, or else the one in use that holds the other
   address, or else the closest one in use. */
typedef struct {
    int is_device;
    int is_known;
    sim_block block;
} place;

static place find(const void *address, const void *from)
{
    place found = {0};
    sim_arena *a = sim_arena_of(address);
    if (a == NULL) {
        return found;
    }
    found.is_device = 1;
    pthread_rwlock_rdlock(&a->lock);
    const sim_block *block = sim_arena_find(a, address);
    if (block == NULL) {
        block = sim_arena_find_live(a, from);
    }
    if (block == NULL) {
        block = sim_arena_nearest(a, address);
    }
    if (block != NULL) {
        found.is_known = 1;
        found.block = *block;
    }
    pthread_rwlock_unlock(&a->lock);
    return found;
}

size_t sim_memory_inside(const void *address, size_t bytes)
{
    sim_arena *a = sim_arena_of(address);
    if (a == NULL) {
        return sim_memory_resolve(address, bytes) == NULL ? 0 : bytes;
    }
    size_t left = 0;
    pthread_rwlock_rdlock(&a->lock);
    const sim_block *block = sim_arena_find_live(a, address);
    if (block != NULL && (uintptr_t)address - block->start < block->asked) {
        left = block->asked - ((uintptr_t)address - block->start);
    }
    pthread_rwlock_unlock(&a->lock);
    return left < bytes ? left : bytes;
}

static int holds(const place *p, const void *address)
{
    return p->is_known && (uintptr_t)address - p->block.start < p->block.asked;
}

const char *sim_memory_kind(const void *address, sim_access access)
{
    const place p = find(address, address);
    if (holds(&p, address) && p.block.freed_by != NULL) {
        /* Work that was queued before its memory was freed may run any time after: the call that frees is wrong. */
        return sim_check_queued_at() < p.block.freed_at ? "freed_while_queued" : "use_after_free";
    }
    return access == SIM_READ ? "out_of_bounds_read" : "out_of_bounds_write";
}

void sim_memory_describe(const void *address, const void *from, char text[SIM_PLACE_BYTES])
{
    const place p = find(address, from);
    if (!p.is_known) {
        snprintf(text, SIM_PLACE_BYTES, "%s", p.is_device ? "no memory of the device's is in use" : "no device memory");
        return;
    }
    const sim_block *b = &p.block;
    const uintptr_t at = (uintptr_t)address;
    char origin[SIM_ORIGIN_BYTES];
    char where[64];
    sim_origin_describe(&b->origin, origin);
    if (holds(&p, address)) {
        snprintf(where, sizeof where, "byte %zu of", (size_t)(at - b->start));
    } else if (at < b->start) {
        snprintf(where, sizeof where, "%zu bytes in front of", (size_t)(b->start - at));
    } else {
        snprintf(where, sizeof where, "%zu bytes behind", (size_t)(at - b->start - b->asked));
    }
    snprintf(text, SIM_PLACE_BYTES, "%s the %zu bytes at %p (%s)%s%s%s", where, b->asked, (void *)b->start, origin,
        b->freed_by == NULL ? "" : ", which ", b->freed_by == NULL ? "" : b->freed_by,
        b->freed_by == NULL ? "" : " freed: free memory once, behind the last work on it");
}

size_t sim_memory_check(const char *function, const char *parameter, const void *address, size_t bytes,
    sim_access access)
{
    size_t inside = sim_memory_inside(address, bytes);
    if (inside < bytes) {
        const char *outside = (const char *)address + inside;
        char where[SIM_PLACE_BYTES];
        const char *kind = sim_memory_kind(outside, access);
        const int is_freed = strncmp(kind, "out_", 4) != 0;
        sim_memory_describe(outside, address, where);
        sim_report(SIM_CHECK_MEM, kind, function, "%s is %p with %zu bytes to %s, but %p is %s%s", parameter, address,
            bytes, access == SIM_READ ? "read" : "write", (const void *)outside, where,
            is_freed ? "" : "; stay inside what was asked for");
    }
    return inside;
}

void sim_memory_report_free(const char *function, const void *address)
{
    const place p = find(address, address);
    const int is_inside = holds(&p, address);
    const char *kind = !is_inside ? "invalid_free" : p.block.freed_by != NULL ? "double_free" : "inner_free";
    char where[SIM_PLACE_BYTES];
    sim_memory_describe(address, address, where);
    sim_report(SIM_CHECK_MEM, kind, function, "devPtr is %p, which cannot be freed: it is %s%s", address, where,
        strcmp(kind, "double_free") == 0 ? "" : "; pass the address that the allocation gave");
}
