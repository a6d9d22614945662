/* SPDX-License-Identifier: Apache-2.0 */
#include "core/arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/device.h"

/* An arena is twice a device's memory, so that the gaps between allocations take nothing from it. */
#define ARENA_BYTES (2 * SIM_DEVICE_MEMORY)
#define ALIGNMENT 512
#define RETIRED 256 /* blocks that were freed and keep their place */

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
#define CLOSED {.lock = PTHREAD_RWLOCK_INITIALIZER}
static sim_arena arenas[] = {CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED};
_Static_assert(sizeof arenas / sizeof *arenas == SIM_MOST_DEVICES, "an arena for each device");

static void *reserve(int protection)
{
    void *address = mmap(NULL, ARENA_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        return NULL;
    }
    madvise(address, ARENA_BYTES, MADV_DONTDUMP);
    return address;
}

static void give_back(void *address)
{
    if (address != NULL) {
        munmap(address, ARENA_BYTES);
    }
}

int sim_arena_open(sim_arena *a)
{
    if (atomic_load(&a->base) != 0) {
        return 1;
    }
    pthread_mutex_lock(&opening);
    if (atomic_load(&a->base) == 0) {
        void *addresses = reserve(PROT_NONE);
        void *bytes = reserve(PROT_READ | PROT_WRITE);
        void *marks = reserve(PROT_READ | PROT_WRITE);
        if (addresses != NULL && bytes != NULL && marks != NULL) {
            a->to_host = (ptrdiff_t)((uintptr_t)bytes - (uintptr_t)addresses);
            a->to_shadow = (ptrdiff_t)((uintptr_t)marks - (uintptr_t)addresses);
            atomic_store(&a->base, (uintptr_t)addresses);
        } else {
            give_back(addresses);
            give_back(bytes);
            give_back(marks);
        }
    }
    pthread_mutex_unlock(&opening);
    return atomic_load(&a->base) != 0;
}

sim_arena *sim_arena_of_device(int32_t device)
{
    return &arenas[device];
}

int32_t sim_arena_device(const sim_arena *a)
{
    return (int32_t)(a - arenas);
}

sim_arena *sim_arena_of(const void *address)
{
    for (int device = 0; device < SIM_MOST_DEVICES; ++device) {
        uintptr_t base = atomic_load_explicit(&arenas[device].base, memory_order_acquire);
        if (base != 0 && (uintptr_t)address - base < ARENA_BYTES) {
            return &arenas[device];
        }
    }
    return NULL;
}

/* Zeros, without taking memory for them. */
static void clear(unsigned char *bytes, size_t count)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)bytes;
    uintptr_t first = (start + page - 1) & ~(page - 1);
    uintptr_t last = (start + count) & ~(page - 1);
    if (last <= first) {
        memset(bytes, 0, count);
        return;
    }
    memset(bytes, 0, first - start);
    memset((void *)last, 0, start + count - last);
    madvise((void *)first, last - first, MADV_DONTNEED);
}

void sim_arena_clear_marks(const sim_arena *a, uintptr_t start, size_t bytes)
{
    clear(sim_arena_marks(a, start), bytes);
}

void sim_arena_discard(const sim_arena *a, uintptr_t start, size_t bytes)
{
    clear(sim_arena_bytes(a, start), bytes);
    sim_arena_clear_marks(a, start, bytes);
}

/* Index of the first block that starts above the address. */
static size_t above(const sim_arena *a, uintptr_t address)
{
    size_t low = 0;
    size_t high = a->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (a->blocks[middle].start <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

sim_block *sim_arena_find(const sim_arena *a, const void *address)
{
    size_t index = above(a, (uintptr_t)address);
    if (index == 0) {
        return NULL;
    }
    sim_block *b = &a->blocks[index - 1];
    return (uintptr_t)address - b->start < b->bytes ? b : NULL;
}

sim_block *sim_arena_find_live(const sim_arena *a, const void *address)
{
    sim_block *b = sim_arena_find(a, address);
    return b != NULL && b->freed_by == NULL ? b : NULL;
}

sim_block *sim_arena_nearest(const sim_arena *a, const void *address)
{
    size_t next = above(a, (uintptr_t)address);
    size_t previous = next;
    while (next < a->count && a->blocks[next].freed_by != NULL) {
        ++next;
    }
    while (previous > 0 && a->blocks[previous - 1].freed_by != NULL) {
        --previous;
    }
    sim_block *after = next < a->count ? &a->blocks[next] : NULL;
    sim_block *before = previous > 0 ? &a->blocks[previous - 1] : NULL;
    if (after == NULL || before == NULL) {
        return after == NULL ? before : after;
    }
    return (uintptr_t)address - (before->start + before->asked) < after->start - (uintptr_t)address ? before : after;
}

static uintptr_t end_of(const sim_block *b)
{
    return (b->start + b->bytes + SIM_BLOCK_GAP + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
}

/* The first hole that is large enough: its index among the blocks and its address. */
static int first_fit(const sim_arena *a, size_t bytes, size_t *index, uintptr_t *start)
{
    uintptr_t base = atomic_load(&a->base);
    *start = base + ALIGNMENT;
    for (*index = 0; *index < a->count; ++*index) {
        const sim_block *next = &a->blocks[*index];
        if (next->start >= *start && next->start - *start >= bytes + SIM_BLOCK_GAP) {
            return 1;
        }
        *start = end_of(next);
    }
    return *start + bytes + SIM_BLOCK_GAP <= base + ARENA_BYTES;
}

static int make_room(sim_arena *a)
{
    if (a->count < a->capacity) {
        return 1;
    }
    size_t capacity = a->capacity == 0 ? 64 : a->capacity * 2;
    sim_block *more = realloc(a->blocks, capacity * sizeof *more);
    if (more == NULL) {
        return 0;
    }
    a->blocks = more;
    a->capacity = capacity;
    return 1;
}

static void erase(sim_arena *a, size_t index)
{
    memmove(&a->blocks[index], &a->blocks[index + 1], (a->count - index - 1) * sizeof *a->blocks);
    --a->count;
}

/* Lets go of the freed block that has been so the longest; 0 when there is none. */
static int forget_one(sim_arena *a)
{
    size_t oldest = a->count;
    for (size_t i = 0; i < a->count; ++i) {
        if (a->blocks[i].freed_by != NULL &&
            (oldest == a->count || a->blocks[i].freed_at < a->blocks[oldest].freed_at)) {
            oldest = i;
        }
    }
    if (oldest == a->count) {
        return 0;
    }
    erase(a, oldest);
    return 1;
}

sim_block *sim_arena_insert(sim_arena *a, sim_block block)
{
    size_t index;
    while (!first_fit(a, block.bytes, &index, &block.start)) {
        if (!forget_one(a)) {
            return NULL;
        }
    }
    if (!make_room(a)) {
        return NULL;
    }
    memmove(&a->blocks[index + 1], &a->blocks[index], (a->count - index) * sizeof *a->blocks);
    a->blocks[index] = block;
    ++a->count;
    ++a->live;
    a->in_use += block.bytes;
    return &a->blocks[index];
}

void sim_arena_remove(sim_arena *a, sim_block *block)
{
    --a->live;
    a->in_use -= block->bytes;
    erase(a, (size_t)(block - a->blocks));
}

void sim_arena_retire(sim_arena *a, sim_block *block)
{
    --a->live;
    a->in_use -= block->bytes;
    if (a->count - a->live > RETIRED) {
        forget_one(a);
    }
}
