/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_workspace.h"

#include "core/checks.h"
#include "core/footprint.h"
#include "core/memory.h"
#include "core/memory_check.h"
#include "core/shadow.h"
#include "opapi/op_tensor.h"

enum { MOST_VIEWS = 1 << 20 }; /* that are looked at of one tensor: beyond it nothing is said */

typedef unsigned long long ull;

/* A search for an element of a tensor that has bytes in a range. */
typedef struct {
    const sim_tensor *tensor;
    sim_span range;
    size_t item_bytes;
    int views_left;
} search;

/* Lowest and highest byte of the axes from this one on, as offsets from the first element. */
static bool reach(const search *s, uint64_t axis, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = (int64_t)s->item_bytes;
    for (; axis < sim_held_rank(s->tensor->rank); axis++) {
        int64_t span;
        if (__builtin_sub_overflow(s->tensor->dims[axis], 1, &span) ||
            __builtin_mul_overflow(span, s->tensor->strides[axis], &span) ||
            __builtin_mul_overflow(span, (int64_t)s->item_bytes, &span) ||
            __builtin_add_overflow(span < 0 ? *low : *high, span, span < 0 ? low : high)) {
            return false;
        }
    }
    return true;
}

static bool meets(search *s, uint64_t axis, uint64_t address)
{
    int64_t low;
    int64_t high;

    if (s->views_left-- <= 0 || !reach(s, axis, &low, &high) || address + (uint64_t)low >= s->range.end ||
        address + (uint64_t)high <= s->range.start) {
        return false;
    }
    if (axis == sim_held_rank(s->tensor->rank)) {
        return true;
    }
    const uint64_t step = (uint64_t)s->tensor->strides[axis] * s->item_bytes;
    for (int64_t i = 0; i < s->tensor->dims[axis] && s->views_left > 0; i++) {
        if (meets(s, axis + 1, address + (uint64_t)i * step)) {
            return true;
        }
    }
    return false;
}

/* A tensor has memory in one allocation, whatever its extents say: that of its first element. */
static bool share_allocation(const void *workspace, uint64_t first)
{
    void *own;
    void *other;
    size_t bytes;

    return sim_memory_find(workspace, &own, &bytes) && sim_memory_find((const void *)(uintptr_t)first, &other, &bytes) &&
           own == other;
}

/* The bytes between the tensor's lowest and highest that are the workspace's, too; none where start is not below end. */
static sim_span common_range(const op_launch *launch, size_t index, uint64_t bytes)
{
    const uint64_t start = (uint64_t)(uintptr_t)launch->workspace;
    const sim_tensor *tensor = &launch->plan->tensors[index];
    const search whole = {.tensor = tensor, .item_bytes = op_tensor_item_bytes(tensor)};
    const uint64_t first = op_tensor_start(tensor, launch->bases[index]);
    int64_t low;
    int64_t high;

    if (op_tensor_is_empty(tensor) || !share_allocation(launch->workspace, first) || !reach(&whole, 0, &low, &high)) {
        return (sim_span){0, 0};
    }
    low = (int64_t)(first + (uint64_t)low);
    high = (int64_t)(first + (uint64_t)high);
    return (sim_span){(uint64_t)low > start ? (uint64_t)low : start,
                      (uint64_t)high < start + bytes ? (uint64_t)high : start + bytes};
}

void op_report_workspace_overlaps(const char *function, const op_launch *launch)
{
    const op_plan *plan = launch->plan;
    const uint64_t bytes =
        sim_checking(SIM_CHECK_API) ? sim_memory_inside(launch->workspace, plan->workspace_bytes) : 0;

    for (size_t i = 0; bytes != 0 && i < plan->tensor_count; i++) {
        const sim_tensor *tensor = &plan->tensors[i];
        const sim_span common = common_range(launch, i, bytes);
        search s = {tensor, common, op_tensor_item_bytes(tensor), MOST_VIEWS};
        if (s.range.start < s.range.end && meets(&s, 0, op_tensor_start(tensor, launch->bases[i]))) {
            sim_report(SIM_CHECK_API, "workspace_overlaps_tensor", function,
                       "the workspace, %llu bytes at %p, overlaps tensor %s from %p up to %p, beginning with byte %llu "
                       "of the workspace; a device may write there: give the workspace memory of its own",
                       (ull)plan->workspace_bytes, launch->workspace, plan->kernel->tensor_names[i],
                       (void *)common.start, (void *)common.end, (ull)(common.start - (uintptr_t)launch->workspace));
        }
    }
}

static bool is_the_callers(const op_launch *launch, uint64_t bytes)
{
    for (size_t i = 0; i < launch->plan->tensor_count; i++) {
        const sim_span common = common_range(launch, i, bytes);
        if (common.start < common.end) {
            return true;
        }
    }
    return false;
}

void op_taint_workspace(const op_launch *launch)
{
    const uint64_t wanted = launch->plan->workspace_bytes;
    const uint64_t given = launch->workspace_bytes < wanted ? launch->workspace_bytes : wanted;

    if (sim_checking(SIM_CHECK_INIT) && !is_the_callers(launch, given)) {
        sim_shadow_taint(launch->workspace, sim_memory_inside(launch->workspace, given));
    }
}

void op_note_workspace(const op_launch *launch)
{
    if (sim_footprint_is_wanted()) {
        sim_footprint_note("workspace", launch->workspace,
                           sim_memory_inside(launch->workspace, launch->plan->workspace_bytes), SIM_WRITES);
    }
}
