/* SPDX-License-Identifier: Apache-2.0 */
#include "core/shadow.h"

#include <stdatomic.h>
#include <string.h>

#include "core/arena.h"
#include "core/checks.h"

#define HEAD (64 << 10)
#define TAIL (4 << 10)
#define WRITTEN 1

static atomic_uint taints;

void sim_poison(char *bytes, size_t count, int pattern)
{
    size_t head = count < HEAD ? count : HEAD;
    size_t tail = count - head < TAIL ? count - head : TAIL;
    memset(bytes, pattern, head);
    memset(bytes + count - tail, pattern, tail);
}

/* The marks of the range; NULL when nothing is known of it. */
static unsigned char *marks_of(const void *address, sim_arena **arena)
{
    unsigned char *marks = NULL;
    *arena = sim_arena_of(address);
    if (*arena != NULL) {
        pthread_rwlock_rdlock(&(*arena)->lock);
        const sim_block *b = sim_arena_find_live(*arena, address);
        if (b != NULL && b->epoch == sim_check_epoch()) {
            marks = sim_arena_marks(*arena, (uintptr_t)address);
        }
        pthread_rwlock_unlock(&(*arena)->lock);
    }
    return marks;
}

void sim_shadow_write(const void *address, size_t bytes)
{
    sim_arena *arena;
    unsigned char *marks = marks_of(address, &arena);
    if (marks != NULL) {
        memset(marks, WRITTEN, bytes);
    }
}

void sim_shadow_copy(const void *to, const void *from, size_t bytes)
{
    sim_arena *arena;
    const unsigned char *source = marks_of(from, &arena);
    unsigned char *target = marks_of(to, &arena);
    if (target != NULL && source != NULL) {
        memmove(target, source, bytes);
    } else if (target != NULL) {
        memset(target, WRITTEN, bytes);
    }
}

/* How many marks from the first on are not the value. */
static size_t count_until(const void *address, size_t bytes, int value)
{
    sim_arena *arena;
    const unsigned char *marks = marks_of(address, &arena);
    if (marks == NULL) {
        return value == WRITTEN ? 0 : bytes;
    }
    const unsigned char *found = memchr(marks, value, bytes);
    return found == NULL ? bytes : (size_t)(found - marks);
}

size_t sim_shadow_written(const void *address, size_t bytes)
{
    return count_until(address, bytes, 0);
}

size_t sim_shadow_unwritten(const void *address, size_t bytes)
{
    return count_until(address, bytes, WRITTEN);
}

int sim_shadow_first(const void *address, const char *function)
{
    sim_arena *a = sim_arena_of(address);
    int first = 0;
    if (a == NULL) {
        return 0;
    }
    pthread_rwlock_wrlock(&a->lock);
    sim_block *b = sim_arena_find_live(a, address);
    for (size_t i = 0; b != NULL && i < SIM_USERS_TOLD; ++i) {
        if (b->told[i] == NULL) {
            b->told[i] = function;
            first = 1;
            break;
        }
        if (strcmp(b->told[i], function) == 0) {
            break;
        }
    }
    pthread_rwlock_unlock(&a->lock);
    return first;
}

void sim_shadow_taint(const void *address, size_t bytes)
{
    sim_arena *arena;
    if (marks_of(address, &arena) != NULL) {
        /* Another pattern in each call, never zero. */
        int pattern = 0x80 | (int)(atomic_fetch_add(&taints, 37) & 0x7F);
        sim_poison(sim_arena_bytes(arena, (uintptr_t)address), bytes, pattern);
        sim_arena_clear_marks(arena, (uintptr_t)address, bytes);
    }
}
