/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_tensor.h"

bool op_tensor_is_empty(const sim_tensor *tensor)
{
    for (uint64_t axis = 0; axis < sim_held_rank(tensor->rank); axis++) {
        if (tensor->dims[axis] == 0) {
            return true;
        }
    }
    return false;
}

bool op_tensor_is_contiguous(const sim_tensor *tensor)
{
    uint64_t expected = 1;

    for (uint64_t axis = sim_held_rank(tensor->rank); axis-- > 0;) {
        if (tensor->dims[axis] == 1) {
            continue;
        }
        if ((uint64_t)tensor->strides[axis] != expected) {
            return false;
        }
        expected *= (uint64_t)tensor->dims[axis];
    }
    return true;
}

static uint64_t product(const int64_t *dims, uint64_t rank)
{
    uint64_t elements = 1;

    for (uint64_t axis = 0; axis < sim_held_rank(rank); axis++) {
        elements *= (uint64_t)dims[axis];
    }
    return elements;
}

uint64_t op_tensor_elements(const sim_tensor *tensor)
{
    return product(tensor->dims, tensor->rank);
}

int64_t op_tensor_storage_elements(const sim_tensor *tensor)
{
    return (int64_t)product(tensor->storage_dims, tensor->storage_rank);
}

size_t op_tensor_item_bytes(const sim_tensor *tensor)
{
    return aclDataTypeSize(tensor->dtype);
}

uint64_t op_tensor_start(const sim_tensor *tensor, const void *base)
{
    return (uint64_t)(uintptr_t)base + (uint64_t)tensor->offset * op_tensor_item_bytes(tensor);
}
