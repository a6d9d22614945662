/* SPDX-License-Identifier: Apache-2.0 */
/* One device's address space: where its blocks lie, those in use and those that were freed lately. */
#ifndef ACLSIM_CORE_ARENA_H_
#define ACLSIM_CORE_ARENA_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/origin.h"

/* What is free on both sides of every block. */
#define SIM_BLOCK_GAP 512
#define SIM_USERS_TOLD 4

typedef struct {
    uintptr_t start;
    size_t asked; /* bytes that the caller asked for */
    size_t bytes; /* the same with CANN's padding */
    sim_origin origin;
    unsigned epoch;        /* of the checks, when it was made */
    const char *freed_by;  /* NULL while it is in use */
    uint64_t freed_at;     /* in ticks */
    const char *told[SIM_USERS_TOLD]; /* the functions that a report of unwritten bytes has named */
} sim_block;

typedef struct {
    atomic_uintptr_t base; /* of the device's addresses; 0 before first use */
    ptrdiff_t to_host;     /* what to add for the bytes behind a device address */
    ptrdiff_t to_shadow;   /* likewise for the marks that say which bytes were written */
    pthread_rwlock_t lock; /* for what follows */
    sim_block *blocks;     /* by start */
    size_t count;
    size_t capacity;
    size_t live;
    size_t in_use; /* bytes of live blocks */
} sim_arena;

/* The arena of a device, and the one that an address belongs to or NULL. */
sim_arena *sim_arena_of_device(int32_t device);
sim_arena *sim_arena_of(const void *address);
int32_t sim_arena_device(const sim_arena *arena);

/* 0 when the host refuses the address space. */
int sim_arena_open(sim_arena *arena);

/* What lies behind a device address, and its marks. */
static inline void *sim_arena_bytes(const sim_arena *arena, uintptr_t address)
{
    return (void *)(address + (uintptr_t)arena->to_host);
}

static inline unsigned char *sim_arena_marks(const sim_arena *arena, uintptr_t address)
{
    return (unsigned char *)(address + (uintptr_t)arena->to_shadow);
}

/* Makes bytes and their marks zero and gives whole pages of both back to the host. */
void sim_arena_discard(const sim_arena *arena, uintptr_t start, size_t bytes);
void sim_arena_clear_marks(const sim_arena *arena, uintptr_t start, size_t bytes);

/* What follows needs the lock. A block is good until the next insertion or removal. */

/* A place for the block, in use; its start is filled in. NULL when there is none, or no memory to keep account. */
sim_block *sim_arena_insert(sim_arena *arena, sim_block block);
void sim_arena_remove(sim_arena *arena, sim_block *block);

/* Keeps a block that was freed where it is, so that nothing takes its place for a while. */
void sim_arena_retire(sim_arena *arena, sim_block *block);

/* The block that holds the address, in use or freed; NULL. */
sim_block *sim_arena_find(const sim_arena *arena, const void *address);

/* The same for one in use. */
sim_block *sim_arena_find_live(const sim_arena *arena, const void *address);

/* The block in use that is closest to the address; NULL when there is none. */
sim_block *sim_arena_nearest(const sim_arena *arena, const void *address);

#endif
