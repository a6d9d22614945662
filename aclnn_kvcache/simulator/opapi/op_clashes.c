/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_clashes.h"

#include <stdio.h>
#include <string.h>

#include "core/checks.h"
#include "core/overlap.h"
#include "opapi/op_duplicates.h"
#include "opapi/op_tensor.h"

#define ROW_BYTES 80

/* Whether the row of a head in a slot holds the address. */
static bool holds(const op_operand_place *cache, const op_slots *rows, int64_t slot, uint64_t head, uint64_t address)
{
    const uint64_t block = (uint64_t)slot / rows->block_size;
    const uint64_t offset = (uint64_t)slot % rows->block_size;
    const uint64_t first = block * cache->strides[0] + head * cache->strides[1] + offset * cache->strides[2];
    const uint64_t into = address - cache->start - first * cache->item_bytes;
    const uint64_t step = cache->strides[3] == 0 ? cache->item_bytes : cache->strides[3] * cache->item_bytes;

    return into / step < op_tensor_count(cache->view, 3) && into % step < cache->item_bytes;
}

/* The next row that holds the address, from this one on; names it. */
static bool find_row(const op_operand_place *cache, const op_slots *rows, uint64_t address, uint64_t *row,
                     char text[ROW_BYTES])
{
    const uint64_t heads = op_tensor_count(cache->view, 1);

    for (; *row < rows->tokens * heads; ++*row) {
        const uint64_t token = *row / heads;
        const uint64_t head = *row % heads;
        if (rows->slots[token] != rows->ignored && holds(cache, rows, rows->slots[token], head, address)) {
            snprintf(text, ROW_BYTES, "head %llu of token %llu (slot %lld)", (unsigned long long)head,
                     (unsigned long long)token, (long long)rows->slots[token]);
            ++*row;
            return true;
        }
    }
    return false;
}

static void report_rows(const op_operand_place *cache, const op_slots *rows, const sim_overlap *again)
{
    char one[ROW_BYTES] = "one row";
    char other[ROW_BYTES] = "another";
    char where[SIM_OVERLAP_BYTES];
    uint64_t row = 0;

    if (find_row(cache, rows, again->first.start, &row, one)) {
        find_row(cache, rows, again->first.start, &row, other);
    }
    sim_overlap_describe(again, where);
    sim_report(SIM_CHECK_RACE, "overlapping_rows", cache->kernel,
               "the strides of tensor %s lay %s and %s on the same memory: the call writes %s, more than once; which "
               "row it keeps is undefined", cache->name, one, other, where);
}

/* Of the tensors that a kernel writes, caches only have strides that count. */
static void report_cache(const op_launch *launch, const op_slots *rows, const sim_footprint *written)
{
    const op_plan *plan = launch->plan;

    for (size_t i = 0; i < plan->tensor_count; i++) {
        if (plan->tensors[i].rank == KERNEL_AXES && strcmp(plan->kernel->tensor_names[i], written->what) == 0) {
            const op_operand_place cache = op_operand_in_place(launch, i);
            report_rows(&cache, rows, &written->again);
        }
    }
}

void op_report_overlapping_rows(const op_launch *launch, const op_slots *rows)
{
    size_t count;

    if (!sim_checking(SIM_CHECK_RACE) ||
        report_duplicates(launch->plan->kernel->name, rows->slots, rows->tokens, rows->ignored)) {
        return;
    }
    const sim_footprint *footprints = sim_footprints(&count);
    for (size_t i = 0; i < count; i++) {
        if (footprints[i].touch == SIM_WRITES && footprints[i].again.bytes != 0) {
            report_cache(launch, rows, &footprints[i]);
        }
    }
}

/* Whether rows that come in any order can make a difference. */
static bool clash(const sim_footprint *one, const sim_footprint *other)
{
    return (one->touch == SIM_WRITES && other->touch != SIM_READS_FIRST) ||
           (other->touch == SIM_WRITES && one->touch != SIM_READS_FIRST);
}

static void report_tensors(const char *kernel, const sim_footprint *one, const sim_footprint *other)
{
    const sim_overlap both = sim_overlap_of(one, other);
    char where[SIM_OVERLAP_BYTES];

    if (both.bytes != 0) {
        sim_overlap_describe(&both, where);
        sim_report(SIM_CHECK_RACE, "overlapping_tensors", kernel,
                   "tensor %s, which it %s, and tensor %s, which it %s, share %s; a device goes through rows in any "
                   "order: give each tensor memory of its own", one->what,
                   one->touch == SIM_WRITES ? "writes" : "reads", other->what,
                   other->touch == SIM_WRITES ? "writes" : "reads", where);
    }
}

void op_report_overlapping_tensors(const char *kernel)
{
    size_t count;
    const sim_footprint *footprints = sim_checking(SIM_CHECK_RACE) ? sim_footprints(&count) : NULL;

    for (size_t i = 0; footprints != NULL && i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            if (clash(&footprints[i], &footprints[j]) && strcmp(footprints[i].what, footprints[j].what) != 0) {
                report_tensors(kernel, &footprints[i], &footprints[j]);
            }
        }
    }
}
