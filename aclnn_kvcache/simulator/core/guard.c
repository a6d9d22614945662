/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guard.h"

#include <string.h>

#include "core/checks.h"

#define GUARD (SIM_BLOCK_GAP / 2) /* the other half is the neighbour's */
#define PATTERN 0x6B

void sim_guard_lay(const sim_arena *a, const sim_block *block)
{
    char *bytes = sim_arena_bytes(a, block->start);
    memset(bytes - GUARD, PATTERN, GUARD);
    memset(bytes + block->asked, PATTERN, block->bytes - block->asked + GUARD);
}

/* How many bytes from the start on are as they were. */
static size_t intact(const unsigned char *bytes, size_t count)
{
    size_t i = 0;
    while (i < count && bytes[i] == PATTERN) {
        ++i;
    }
    return i;
}

static void report(const sim_block *block, const char *function, size_t distance, const char *side)
{
    char origin[SIM_ORIGIN_BYTES];
    sim_origin_describe(&block->origin, origin);
    sim_report(SIM_CHECK_MEM, "guard_overwritten", function,
        "somebody wrote to %p, %zu bytes %s the %zu bytes at %p (%s); look for a size that is told too large",
        (void *)(block->start + (side[0] == 'b' ? block->asked + distance : -distance)), distance, side, block->asked,
        (void *)block->start, origin);
}

void sim_guard_inspect(const sim_arena *a, const sim_block *block, const char *function)
{
    if (block->epoch != sim_check_epoch()) {
        return;
    }
    const unsigned char *bytes = sim_arena_bytes(a, block->start);
    const size_t behind = block->bytes - block->asked + GUARD;
    const size_t before = intact(bytes - GUARD, GUARD);
    const size_t after = intact(bytes + block->asked, behind);
    if (before < GUARD) {
        report(block, function, GUARD - before, "in front of");
    }
    if (after < behind) {
        report(block, function, after, "behind");
    }
}
