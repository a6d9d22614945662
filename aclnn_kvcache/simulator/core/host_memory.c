/* SPDX-License-Identifier: Apache-2.0 */
#include "core/host_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/counters.h"
#include "core/faults.h"
#include "core/pinned.h"
#include "core/process.h"

typedef sim_host_range range;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t in_use = PTHREAD_RWLOCK_INITIALIZER;
static range *ranges; /* by start */
static size_t count;
static size_t capacity;

/* Index of the first range that ends above the address. With the lock. */
static size_t reaching(uintptr_t address)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].start + ranges[middle].bytes <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int insert(uintptr_t start, size_t bytes, sim_host_kind kind, const char *function)
{
    size_t index = reaching(start);
    if (index < count && ranges[index].start - start < bytes) {
        return 0;
    }
    if (index < count && ranges[index].start <= start) {
        return 0;
    }
    if (count == capacity) {
        size_t wanted = capacity == 0 ? 64 : capacity * 2;
        range *more = realloc(ranges, wanted * sizeof *more);
        if (more == NULL) {
            return 0;
        }
        ranges = more;
        capacity = wanted;
    }
    memmove(&ranges[index + 1], &ranges[index], (count - index) * sizeof *ranges);
    ranges[index] = (range){start, bytes, kind, sim_origin_now(function)};
    ++count;
    return 1;
}

/* Whether the range started here and was pinned, or registered; then it is gone. */
static int take(uintptr_t start, int pinned, range *taken)
{
    pthread_rwlock_wrlock(&lock);
    size_t index = reaching(start);
    int found = index < count && ranges[index].start == start && (ranges[index].kind == SIM_HOST_PINNED) == pinned;
    if (found) {
        *taken = ranges[index];
        memmove(&ranges[index], &ranges[index + 1], (count - index - 1) * sizeof *ranges);
        --count;
    }
    pthread_rwlock_unlock(&lock);
    if (found) {
        pthread_rwlock_wrlock(&in_use);
        pthread_rwlock_unlock(&in_use);
    }
    return found;
}

int sim_host_register(const char *function, void *address, size_t bytes, sim_host_kind kind)
{
    sim_process_use();
    pthread_rwlock_wrlock(&lock);
    int inserted = insert((uintptr_t)address, bytes, kind, function);
    pthread_rwlock_unlock(&lock);
    return inserted;
}

int sim_host_unregister(void *address)
{
    range taken;
    return take((uintptr_t)address, 0, &taken);
}

void *sim_host_allocate(const char *function, size_t bytes)
{
    void *address = sim_fault_exhausts() ? NULL : sim_pinned_allocate(bytes);
    if (address == NULL) {
        return NULL;
    }
    if (!sim_host_register(function, address, bytes, SIM_HOST_PINNED)) {
        sim_pinned_free(function, &(range){.start = (uintptr_t)address, .bytes = bytes});
        return NULL;
    }
    sim_count(ACLSIM_LIVE_HOST_ALLOCATIONS, 1);
    return address;
}

int sim_host_free(const char *function, void *address)
{
    range taken;
    if (!take((uintptr_t)address, 1, &taken)) {
        return 0;
    }
    sim_pinned_free(function, &taken);
    sim_count(ACLSIM_LIVE_HOST_ALLOCATIONS, -1);
    return 1;
}

int sim_host_find(const void *address, size_t *bytes, sim_host_kind *kind)
{
    pthread_rwlock_rdlock(&lock);
    size_t index = reaching((uintptr_t)address);
    int found = index < count && ranges[index].start <= (uintptr_t)address;
    if (found) {
        *bytes = ranges[index].bytes - ((uintptr_t)address - ranges[index].start);
        *kind = ranges[index].kind;
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

size_t sim_host_list(sim_host_range **list)
{
    pthread_rwlock_rdlock(&lock);
    size_t found = count;
    *list = found == 0 ? NULL : malloc(found * sizeof **list);
    if (*list == NULL) {
        found = 0;
    } else {
        memcpy(*list, ranges, found * sizeof **list);
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

void sim_host_hold(void)
{
    pthread_rwlock_rdlock(&in_use);
}

void sim_host_unhold(void)
{
    pthread_rwlock_unlock(&in_use);
}

void *sim_host_resolve(const void *address, size_t bytes)
{
    size_t known;
    sim_host_kind kind;
    int inside = sim_host_find(address, &known, &kind) && kind == SIM_HOST_MAPPED && bytes <= known;
    return inside ? (void *)(uintptr_t)address : NULL;
}
