/* SPDX-License-Identifier: Apache-2.0 */
#include "core/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/process.h"

/* A handle is tag, kind + 1, generation and slot. No user address of x86_64 or aarch64 has the bits of the tag and of
   the kind, top-byte-ignore or not. A slot whose generations are used up is retired. */
#define TAG 0x5AULL
#define TAG_SHIFT 56
#define KIND_SHIFT 52
#define GENERATION_SHIFT 24
#define GENERATION_END (1U << (KIND_SHIFT - GENERATION_SHIFT))
#define SLOTS_END (1U << GENERATION_SHIFT)
#define NO_SLOT UINT32_MAX

typedef struct {
    void *object;
    uint32_t generation;
    uint32_t next_free;
    sim_origin origin;
    sim_origin ended; /* where the one came from that was here before */
    const char *ended_by;
} slot;

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static slot *slots;
static uint32_t used;
static uint32_t capacity;
static uint32_t first_free = NO_SLOT;
static sim_kind *kinds;
static atomic_long counts[SIM_KINDS];

static void *encode(sim_kind kind, uint32_t index)
{
    uint64_t value = TAG << TAG_SHIFT | (uint64_t)(kind + 1) << KIND_SHIFT |
        (uint64_t)slots[index].generation << GENERATION_SHIFT | index;
    return (void *)(uintptr_t)value;
}

/* The slot of a live handle, or NO_SLOT. Needs the lock. */
static uint32_t find(sim_kind kind, const void *handle)
{
    uint32_t index = (uint32_t)((uintptr_t)handle & (SLOTS_END - 1));
    if (index >= used || slots[index].object == NULL || kinds[index] != kind || encode(kind, index) != handle) {
        return NO_SLOT;
    }
    return index;
}

static int grow(void)
{
    if (used < capacity) {
        return 1;
    }
    uint32_t wanted = capacity == 0 ? 256 : capacity * 2;
    if (wanted > SLOTS_END) {
        return 0;
    }
    slot *more_slots = realloc(slots, wanted * sizeof *slots);
    if (more_slots == NULL) {
        return 0;
    }
    slots = more_slots;
    sim_kind *more_kinds = realloc(kinds, wanted * sizeof *kinds);
    if (more_kinds == NULL) {
        return 0;
    }
    kinds = more_kinds;
    capacity = wanted;
    return 1;
}

void *sim_handle_create(sim_kind kind, void *object, const char *function)
{
    if (sim_process_forked()) {
        return NULL;
    }
    sim_process_use();
    void *handle = NULL;
    pthread_rwlock_wrlock(&lock);
    uint32_t index = first_free;
    if (index != NO_SLOT) {
        first_free = slots[index].next_free;
    } else if (grow()) {
        index = used++;
        slots[index].generation = 0;
    }
    if (index != NO_SLOT) {
        slots[index].object = object;
        slots[index].origin = sim_origin_now(function);
        kinds[index] = kind;
        handle = encode(kind, index);
        atomic_fetch_add(&counts[kind], 1);
    }
    pthread_rwlock_unlock(&lock);
    return handle;
}

static void retain_nothing(void *object)
{
    (void)object;
}

void *sim_handle_get(sim_kind kind, const void *handle)
{
    return sim_handle_acquire(kind, handle, retain_nothing);
}

void *sim_handle_acquire(sim_kind kind, const void *handle, void (*retain)(void *object))
{
    if (handle == NULL || sim_process_forked()) {
        return NULL;
    }
    pthread_rwlock_rdlock(&lock);
    uint32_t index = find(kind, handle);
    void *object = index == NO_SLOT ? NULL : slots[index].object;
    if (object != NULL) {
        retain(object);
    }
    pthread_rwlock_unlock(&lock);
    return object;
}

void *sim_handle_remove(sim_kind kind, const void *handle, const char *function)
{
    if (handle == NULL || sim_process_forked()) {
        return NULL;
    }
    void *object = NULL;
    pthread_rwlock_wrlock(&lock);
    uint32_t index = find(kind, handle);
    if (index != NO_SLOT) {
        object = slots[index].object;
        slots[index].object = NULL;
        slots[index].ended = slots[index].origin;
        slots[index].ended_by = function;
        if (++slots[index].generation < GENERATION_END) {
            slots[index].next_free = first_free;
            first_free = index;
        }
        atomic_fetch_sub(&counts[kind], 1);
    }
    pthread_rwlock_unlock(&lock);
    return object;
}

/* With the lock. */
static sim_handle_facts look(uint64_t value)
{
    const uint32_t index = (uint32_t)(value & (SLOTS_END - 1));
    const uint32_t generation = (uint32_t)(value >> GENERATION_SHIFT) & (GENERATION_END - 1);
    const uint64_t kind = (value >> KIND_SHIFT & 0xF) - 1;
    sim_handle_facts facts = {.state = SIM_NEVER_A_HANDLE};
    if (value >> TAG_SHIFT != TAG || kind >= SIM_KINDS || index >= used || generation > slots[index].generation) {
        return facts;
    }
    const int is_live = slots[index].object != NULL;
    facts.kind = (sim_kind)kind;
    if (generation == slots[index].generation) {
        facts.state = is_live && kinds[index] == facts.kind ? SIM_LIVE_HANDLE : SIM_NEVER_A_HANDLE;
        facts.origin = slots[index].origin;
        return facts;
    }
    facts.state = SIM_ENDED_HANDLE;
    if (generation + 1 == slots[index].generation) {
        facts.origin = slots[index].ended;
        facts.ended_by = slots[index].ended_by;
    }
    facts.is_replaced = is_live && kinds[index] == facts.kind;
    return facts;
}

sim_handle_facts sim_handle_look(const void *handle)
{
    if (sim_process_forked()) {
        return (sim_handle_facts){.state = SIM_NEVER_A_HANDLE};
    }
    pthread_rwlock_rdlock(&lock);
    const sim_handle_facts facts = look((uint64_t)(uintptr_t)handle);
    pthread_rwlock_unlock(&lock);
    return facts;
}

long sim_handle_count(sim_kind kind)
{
    return atomic_load(&counts[kind]);
}

size_t sim_handle_collect(sim_kind kind, void (*retain)(void *object), sim_entry **entries)
{
    size_t found = 0;
    *entries = NULL;
    if (sim_process_forked()) {
        return 0;
    }
    pthread_rwlock_rdlock(&lock);
    long expected = sim_handle_count(kind);
    if (expected > 0) {
        *entries = malloc((size_t)expected * sizeof **entries);
    }
    for (uint32_t index = 0; *entries != NULL && index < used; ++index) {
        if (slots[index].object != NULL && kinds[index] == kind) {
            retain(slots[index].object);
            (*entries)[found++] = (sim_entry){encode(kind, index), slots[index].object, slots[index].origin};
        }
    }
    pthread_rwlock_unlock(&lock);
    return found;
}
