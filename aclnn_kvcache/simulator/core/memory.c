/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory.h"

#include <stdlib.h>

#include "core/arena.h"
#include "core/checks.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/faults.h"
#include "core/guard.h"
#include "core/host_memory.h"
#include "core/memory_check.h"
#include "core/process.h"
#include "core/shadow.h"

#define POISON 0xA5

void *sim_memory_resolve(const void *device_address, size_t bytes)
{
    if (sim_process_forked()) {
        return NULL;
    }
    sim_arena *a = sim_arena_of(device_address);
    if (a == NULL) {
        return sim_host_resolve(device_address, bytes);
    }
    pthread_rwlock_rdlock(&a->lock);
    const sim_block *b = sim_arena_find_live(a, device_address);
    int inside = b != NULL && bytes <= b->bytes - ((uintptr_t)device_address - b->start);
    pthread_rwlock_unlock(&a->lock);
    return inside ? sim_arena_bytes(a, (uintptr_t)device_address) : NULL;
}

/* With the lock. Fresh device memory holds anything; it must not look like zeros. */
static sim_memory_result insert(sim_arena *a, sim_block block, void **address)
{
    if (block.bytes > SIM_DEVICE_MEMORY - a->in_use) {
        return SIM_MEMORY_EXHAUSTED;
    }
    const sim_block *made = sim_arena_insert(a, block);
    if (made == NULL) {
        return SIM_MEMORY_EXHAUSTED;
    }
    sim_poison(sim_arena_bytes(a, made->start), made->bytes, POISON);
    if (sim_checking(SIM_CHECK_MEM)) {
        sim_guard_lay(a, made);
    }
    *address = (void *)made->start;
    return SIM_MEMORY_OK;
}

sim_memory_result sim_memory_allocate(const char *function, int32_t device, size_t asked, size_t bytes, void **address)
{
    if (sim_fault_exhausts()) {
        return SIM_MEMORY_EXHAUSTED;
    }
    sim_arena *a = sim_arena_of_device(device);
    if (!sim_arena_open(a)) {
        return SIM_MEMORY_NO_ARENA;
    }
    pthread_rwlock_wrlock(&a->lock);
    sim_memory_result result = insert(a,
        (sim_block){.asked = asked, .bytes = bytes, .origin = sim_origin_now(function), .epoch = sim_check_epoch()},
        address);
    pthread_rwlock_unlock(&a->lock);
    if (result == SIM_MEMORY_OK) {
        sim_count(ACLSIM_LIVE_DEVICE_ALLOCATIONS, 1);
        sim_count(ACLSIM_LIVE_DEVICE_BYTES, (int64_t)bytes);
    }
    return result;
}

/* With the lock. */
static void release(sim_arena *a, sim_block *block, const char *function)
{
    if (sim_checking(SIM_CHECK_MEM)) {
        sim_guard_inspect(a, block, function);
    }
    sim_arena_discard(a, block->start, block->bytes);
    sim_count(ACLSIM_LIVE_DEVICE_ALLOCATIONS, -1);
    sim_count(ACLSIM_LIVE_DEVICE_BYTES, -(int64_t)block->bytes);
    if (sim_checking(SIM_CHECK_MEM)) {
        block->freed_by = function;
        block->freed_at = sim_tick();
        sim_arena_retire(a, block);
    } else {
        sim_arena_remove(a, block);
    }
}

int sim_memory_free(const char *function, void *address)
{
    sim_arena *a = sim_arena_of(address);
    int found = 0;
    if (a != NULL) {
        pthread_rwlock_wrlock(&a->lock);
        sim_block *block = sim_arena_find_live(a, address);
        found = block != NULL && block->start == (uintptr_t)address;
        if (found) {
            release(a, block, function);
        }
        pthread_rwlock_unlock(&a->lock);
    }
    if (!found && sim_checking(SIM_CHECK_MEM)) {
        sim_memory_report_free(function, address);
    }
    return found;
}

void sim_memory_free_all(const char *function, int32_t device)
{
    sim_arena *a = sim_arena_of_device(device);
    pthread_rwlock_wrlock(&a->lock);
    for (size_t i = a->count; i-- > 0;) {
        if (a->blocks[i].freed_by == NULL) {
            release(a, &a->blocks[i], function);
        }
    }
    pthread_rwlock_unlock(&a->lock);
}

int sim_memory_is_device(const void *address, int32_t *device)
{
    const sim_arena *a = sim_arena_of(address);
    if (a == NULL) {
        return 0;
    }
    *device = sim_arena_device(a);
    return 1;
}

int sim_memory_find(const void *address, void **start, size_t *bytes)
{
    sim_arena *a = sim_arena_of(address);
    if (a == NULL) {
        return 0;
    }
    pthread_rwlock_rdlock(&a->lock);
    const sim_block *b = sim_arena_find_live(a, address);
    if (b != NULL) {
        *start = (void *)b->start;
        *bytes = b->bytes;
    }
    pthread_rwlock_unlock(&a->lock);
    return b != NULL;
}

size_t sim_memory_in_use(int32_t device)
{
    sim_arena *a = sim_arena_of_device(device);
    pthread_rwlock_rdlock(&a->lock);
    size_t bytes = a->in_use;
    pthread_rwlock_unlock(&a->lock);
    return bytes;
}

size_t sim_memory_list(int32_t device, sim_memory_entry **entries)
{
    sim_arena *a = sim_arena_of_device(device);
    size_t found = 0;
    pthread_rwlock_rdlock(&a->lock);
    *entries = a->live == 0 ? NULL : malloc(a->live * sizeof **entries);
    for (size_t i = 0; *entries != NULL && i < a->count; ++i) {
        const sim_block *b = &a->blocks[i];
        if (b->freed_by == NULL) {
            (*entries)[found++] = (sim_memory_entry){device, b->start, b->asked, b->origin};
        }
    }
    pthread_rwlock_unlock(&a->lock);
    return found;
}
