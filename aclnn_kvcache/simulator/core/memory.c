/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/counters.h"
#include "core/device.h"
#include "core/faults.h"
#include "core/host_memory.h"
#include "core/process.h"

/* An arena is twice a device's memory, so that the gaps between allocations take nothing from it. */
#define ARENA_BYTES (2 * SIM_DEVICE_MEMORY)
#define ALIGNMENT 512
#define GAP 512
#define POISON 0xA5
#define POISON_HEAD (64 << 10)
#define POISON_TAIL (4 << 10)

typedef struct {
    uintptr_t start;
    size_t bytes;
} block;

typedef struct {
    atomic_uintptr_t base; /* of the device's addresses; 0 before first use */
    ptrdiff_t to_host;     /* what to add for the bytes behind a device address */
    pthread_rwlock_t lock; /* for what follows */
    block *blocks;         /* by start */
    size_t count;
    size_t capacity;
    size_t in_use;
} arena;

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
#define CLOSED {.lock = PTHREAD_RWLOCK_INITIALIZER}
static arena arenas[] = {CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED};
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

static int open_arena(arena *a)
{
    if (atomic_load(&a->base) != 0) {
        return 1;
    }
    pthread_mutex_lock(&opening);
    if (atomic_load(&a->base) == 0) {
        void *addresses = reserve(PROT_NONE);
        void *bytes = addresses == NULL ? NULL : reserve(PROT_READ | PROT_WRITE);
        if (bytes != NULL) {
            a->to_host = (ptrdiff_t)((uintptr_t)bytes - (uintptr_t)addresses);
            atomic_store(&a->base, (uintptr_t)addresses);
        } else if (addresses != NULL) {
            munmap(addresses, ARENA_BYTES);
        }
    }
    pthread_mutex_unlock(&opening);
    return atomic_load(&a->base) != 0;
}

static arena *arena_of(const void *address)
{
    for (int device = 0; device < SIM_MOST_DEVICES; ++device) {
        uintptr_t base = atomic_load_explicit(&arenas[device].base, memory_order_acquire);
        if (base != 0 && (uintptr_t)address - base < ARENA_BYTES) {
            return &arenas[device];
        }
    }
    return NULL;
}

static void *to_host(const arena *a, uintptr_t address)
{
    return (void *)(address + (uintptr_t)a->to_host);
}

/* Index of the first block that starts above the address. With the lock. */
static size_t above(const arena *a, uintptr_t address)
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

/* The block that holds the address, or NULL. With the lock. */
static const block *holder(const arena *a, const void *address)
{
    size_t index = above(a, (uintptr_t)address);
    if (index == 0) {
        return NULL;
    }
    const block *b = &a->blocks[index - 1];
    return (uintptr_t)address - b->start < b->bytes ? b : NULL;
}

void *sim_memory_resolve(const void *device_address, size_t bytes)
{
    if (sim_process_forked()) {
        return NULL;
    }
    arena *a = arena_of(device_address);
    if (a == NULL) {
        return sim_host_resolve(device_address, bytes);
    }
    pthread_rwlock_rdlock(&a->lock);
    const block *b = holder(a, device_address);
    int inside = b != NULL && bytes <= b->bytes - ((uintptr_t)device_address - b->start);
    pthread_rwlock_unlock(&a->lock);
    return inside ? to_host(a, (uintptr_t)device_address) : NULL;
}

static uintptr_t end_of(const block *b)
{
    return (b->start + b->bytes + GAP + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1);
}

/* The first hole that is large enough: its index among the blocks and its address. With the lock. */
static int first_fit(const arena *a, size_t bytes, size_t *index, uintptr_t *start)
{
    uintptr_t base = atomic_load(&a->base);
    *start = base + ALIGNMENT;
    for (*index = 0; *index < a->count; ++*index) {
        const block *next = &a->blocks[*index];
        if (next->start >= *start && next->start - *start >= bytes + GAP) {
            return 1;
        }
        *start = end_of(next);
    }
    return *start + bytes + GAP <= base + ARENA_BYTES;
}

static int make_room(arena *a)
{
    if (a->count < a->capacity) {
        return 1;
    }
    size_t capacity = a->capacity == 0 ? 64 : a->capacity * 2;
    block *more = realloc(a->blocks, capacity * sizeof *more);
    if (more == NULL) {
        return 0;
    }
    a->blocks = more;
    a->capacity = capacity;
    return 1;
}

static sim_memory_result insert(arena *a, size_t bytes, void **address)
{
    size_t index;
    uintptr_t start;
    if (bytes > SIM_DEVICE_MEMORY - a->in_use || !first_fit(a, bytes, &index, &start)) {
        return SIM_MEMORY_EXHAUSTED;
    }
    if (!make_room(a)) {
        return SIM_MEMORY_NO_ARENA;
    }
    memmove(&a->blocks[index + 1], &a->blocks[index], (a->count - index) * sizeof *a->blocks);
    a->blocks[index] = (block){start, bytes};
    ++a->count;
    a->in_use += bytes;
    *address = (void *)start;
    return SIM_MEMORY_OK;
}

/* Fresh device memory holds anything; it must not look like zeros. */
static void poison(char *bytes, size_t count)
{
    size_t head = count < POISON_HEAD ? count : POISON_HEAD;
    size_t tail = count - head < POISON_TAIL ? count - head : POISON_TAIL;
    memset(bytes, POISON, head);
    memset(bytes + count - tail, POISON, tail);
}

sim_memory_result sim_memory_allocate(int32_t device, size_t bytes, void **address)
{
    arena *a = &arenas[device];
    if (sim_fault_exhausts()) {
        return SIM_MEMORY_EXHAUSTED;
    }
    if (!open_arena(a)) {
        return SIM_MEMORY_NO_ARENA;
    }
    pthread_rwlock_wrlock(&a->lock);
    sim_memory_result result = insert(a, bytes, address);
    if (result == SIM_MEMORY_OK) {
        poison(to_host(a, (uintptr_t)*address), bytes);
        sim_count(ACLSIM_LIVE_DEVICE_ALLOCATIONS, 1);
        sim_count(ACLSIM_LIVE_DEVICE_BYTES, (int64_t)bytes);
    }
    pthread_rwlock_unlock(&a->lock);
    return result;
}

/* Gives whole pages back to the host. */
static void discard(const arena *a, const block *b)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)to_host(a, b->start) + page - 1) & ~(page - 1);
    uintptr_t last = ((uintptr_t)to_host(a, b->start) + b->bytes) & ~(page - 1);
    if (last > first) {
        madvise((void *)first, last - first, MADV_DONTNEED);
    }
}

int sim_memory_free(void *address)
{
    arena *a = arena_of(address);
    if (a == NULL) {
        return 0;
    }
    pthread_rwlock_wrlock(&a->lock);
    const block *found = holder(a, address);
    size_t bytes = 0;
    if (found != NULL && found->start == (uintptr_t)address) {
        size_t index = (size_t)(found - a->blocks);
        bytes = found->bytes;
        discard(a, found);
        memmove(&a->blocks[index], &a->blocks[index + 1], (a->count - index - 1) * sizeof *a->blocks);
        --a->count;
        a->in_use -= bytes;
    }
    pthread_rwlock_unlock(&a->lock);
    if (bytes == 0) {
        return 0;
    }
    sim_count(ACLSIM_LIVE_DEVICE_ALLOCATIONS, -1);
    sim_count(ACLSIM_LIVE_DEVICE_BYTES, -(int64_t)bytes);
    return 1;
}

void sim_memory_free_all(int32_t device)
{
    arena *a = &arenas[device];
    pthread_rwlock_wrlock(&a->lock);
    for (size_t i = 0; i < a->count; ++i) {
        discard(a, &a->blocks[i]);
    }
    sim_count(ACLSIM_LIVE_DEVICE_ALLOCATIONS, -(int64_t)a->count);
    sim_count(ACLSIM_LIVE_DEVICE_BYTES, -(int64_t)a->in_use);
    a->count = 0;
    a->in_use = 0;
    pthread_rwlock_unlock(&a->lock);
}

int sim_memory_is_device(const void *address, int32_t *device)
{
    arena *a = arena_of(address);
    if (a == NULL) {
        return 0;
    }
    *device = (int32_t)(a - arenas);
    return 1;
}

int sim_memory_find(const void *address, void **start, size_t *bytes)
{
    arena *a = arena_of(address);
    if (a == NULL) {
        return 0;
    }
    pthread_rwlock_rdlock(&a->lock);
    const block *b = holder(a, address);
    if (b != NULL) {
        *start = (void *)b->start;
        *bytes = b->bytes;
    }
    pthread_rwlock_unlock(&a->lock);
    return b != NULL;
}

size_t sim_memory_in_use(int32_t device)
{
    arena *a = &arenas[device];
    pthread_rwlock_rdlock(&a->lock);
    size_t bytes = a->in_use;
    pthread_rwlock_unlock(&a->lock);
    return bytes;
}
