/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_operand.h"

#include "core/checks.h"
#include "core/footprint.h"
#include "core/memory.h"
#include "opapi/op_tensor.h"

static op_window open_window(uint64_t address)
{
    void *start;
    size_t bytes;

    if (sim_checking(SIM_CHECK_MEM) || sim_checking(SIM_CHECK_INIT) || sim_footprint_is_wanted() ||
        !sim_memory_find((const void *)(uintptr_t)address, &start, &bytes)) {
        return (op_window){0};
    }
    unsigned char *host = sim_memory_resolve(start, bytes);
    return (op_window){(uintptr_t)start, host == NULL ? 0 : bytes, host};
}

static op_operand_place place(const op_launch *launch, size_t index, uint64_t start, const int64_t *strides)
{
    const op_plan *plan = launch->plan;
    const sim_tensor *view = &plan->tensors[index];
    op_operand_place made = {
        .start = start,
        .item_bytes = op_tensor_item_bytes(view),
        .window = open_window(start),
        .kernel = plan->kernel->name,
        .name = plan->kernel->tensor_names[index],
        .view = view,
        .index = index,
    };
    int64_t lowest = 0;
    int64_t highest = 0;

    for (uint64_t axis = 0; axis < view->rank && axis < KERNEL_AXES; axis++) {
        made.strides[axis] = (uint64_t)strides[axis];
    }
    if (op_tensor_is_empty(view)) {
        made.low = made.end = start;
    } else if (op_tensor_span(view, strides, &lowest, &highest)) {
        made.low = start + (uint64_t)lowest * made.item_bytes;
        made.end = start + ((uint64_t)highest + 1) * made.item_bytes;
    } else {
        made.end = UINT64_MAX;
    }
    return made;
}

op_operand_place op_operand_in_place(const op_launch *launch, size_t index)
{
    const sim_tensor *view = &launch->plan->tensors[index];

    return place(launch, index, op_tensor_start(view, launch->bases[index]), view->strides);
}

op_operand_place op_operand_copy(const op_launch *launch, size_t index, uint64_t start)
{
    int64_t dense[SIM_MAX_RANK];

    sim_dense_strides(&launch->plan->tensors[index], dense);
    op_operand_place made = place(launch, index, start, dense);
    made.is_copy = true;
    return made;
}
