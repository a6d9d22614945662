/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_operand.h"

#include "core/memory.h"
#include "opapi/op_tensor.h"

static op_window open_window(uint64_t address)
{
    void *start;
    size_t bytes;

    if (!sim_memory_find((const void *)(uintptr_t)address, &start, &bytes)) {
        return (op_window){0};
    }
    unsigned char *host = sim_memory_resolve(start, bytes);
    return (op_window){(uintptr_t)start, host == NULL ? 0 : bytes, host};
}

static op_operand_place operand(const sim_tensor *tensor, uint64_t start, const int64_t *strides)
{
    op_operand_place place = {
        .start = start,
        .item_bytes = op_tensor_item_bytes(tensor),
        .view = tensor,
        .window = open_window(start),
    };

    for (uint64_t axis = 0; axis < tensor->rank && axis < 4; axis++) {
        place.strides[axis] = (uint64_t)strides[axis];
    }
    return place;
}

op_operand_place op_operand_in_place(const op_launch *launch, size_t index)
{
    const sim_tensor *tensor = &launch->plan->tensors[index];

    return operand(tensor, op_tensor_start(tensor, launch->bases[index]), tensor->strides);
}

op_operand_place op_operand_copy(const op_launch *launch, size_t index, uint64_t start)
{
    const sim_tensor *tensor = &launch->plan->tensors[index];
    int64_t dense[SIM_MAX_RANK];

    sim_dense_strides(tensor, dense);
    return operand(tensor, start, dense);
}
