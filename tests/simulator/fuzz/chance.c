/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers, and what is random about handles. */
#include "fuzz.h"

uint64_t any_bits(world *w)
{
    uint64_t z = w->random += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

uint64_t below(world *w, uint64_t end)
{
    return any_bits(w) % end;
}

int64_t between(world *w, int64_t first, int64_t last)
{
    return first + (int64_t)below(w, (uint64_t)(last - first) + 1);
}

bool one_in(world *w, uint64_t n)
{
    return below(w, n) == 0;
}

int64_t odd_number(world *w)
{
    static const int64_t limits[] = {0, 1, -1, INT32_MAX, INT32_MIN, UINT32_MAX, 1LL << 32,
                                     INT64_MAX, INT64_MIN, 1LL << 40, 1LL << 62};
    switch (below(w, 4)) {
    case 0:
        return limits[below(w, sizeof limits / sizeof limits[0])];
    case 1:
        return (int64_t)any_bits(w);
    default:
        return between(w, -4, 64);
    }
}

/* An address that was freed may be one of another block by now. */
static bool is_alive(const world *w, const void *address)
{
    for (int i = 0; i < MOST_BLOCKS; i++) {
        const block *b = &w->blocks[i];
        if (b->device != NULL && (uintptr_t)address - (uintptr_t)b->device < b->bytes) {
            return true;
        }
    }
    return false;
}

const void *wild_pointer(world *w)
{
    static const uintptr_t nowhere[] = {0, 1, 4096, 0x5A00000000000000U, UINTPTR_MAX, UINTPTR_MAX - 511};
    switch (below(w, 5)) {
    case 0:
        return w->streams[below(w, STREAMS)];
    case 1:
        return w->events[below(w, EVENTS)];
    case 2:
        if (w->stale_count > 0) {
            const void *stale = w->stale[below(w, w->stale_count)];
            return is_alive(w, stale) ? NULL : stale;
        }
        return NULL;
    default:
        return (const void *)nowhere[below(w, sizeof nowhere / sizeof nowhere[0])];
    }
}

void fill(world *w, void *bytes, size_t count)
{
    uint8_t *to = bytes;
    for (size_t i = 0; i < count; i++) {
        to[i] = (uint8_t)any_bits(w);
    }
}

void remember_stale(world *w, const void *handle)
{
    if (w->stale_count < MOST_STALE) {
        w->stale[w->stale_count++] = handle;
    } else {
        w->stale[below(w, MOST_STALE)] = handle;
    }
}
