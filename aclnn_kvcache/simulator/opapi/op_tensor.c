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

    if (op_tensor_is_empty(tensor)) {
        return true;
    }
    for (uint64_t axis = sim_held_rank(tensor->rank); axis-- > 0;) {
        if (tensor->dims[axis] == 1) {
            continue;
        }
        if ((uint64_t)tensor->strides[axis] != expected || tensor->strides[axis] < 0) {
            return false;
        }
        expected *= (uint64_t)tensor->dims[axis];
    }
    return true;
}

uint64_t op_tensor_elements(const sim_tensor *tensor)
{
    uint64_t elements = 1;

    for (uint64_t axis = 0; axis < sim_held_rank(tensor->rank); axis++) {
        elements *= op_tensor_count(tensor, axis);
    }
    return elements;
}

int64_t op_tensor_storage_elements(const sim_tensor *tensor)
{
    uint64_t elements = 1;

    for (uint64_t axis = 0; axis < sim_held_rank(tensor->storage_rank); axis++) {
        elements *= (uint64_t)tensor->storage_dims[axis];
    }
    return (int64_t)elements;
}

uint64_t op_tensor_count(const sim_tensor *tensor, uint64_t axis)
{
    return tensor->dims[axis] > 0 ? (uint64_t)tensor->dims[axis] : 0;
}

bool op_tensor_span(const sim_tensor *tensor, const int64_t *strides, int64_t *lowest, int64_t *highest)
{
    *lowest = 0;
    *highest = 0;
    for (uint64_t axis = 0; axis < sim_held_rank(tensor->rank); axis++) {
        int64_t span;
        if (__builtin_sub_overflow(tensor->dims[axis], 1, &span) ||
            __builtin_mul_overflow(span, strides[axis], &span) ||
            (span < 0 ? __builtin_add_overflow(*lowest, span, lowest)
                      : __builtin_add_overflow(*highest, span, highest))) {
            return false;
        }
    }
    return true;
}

bool op_tensor_leaves_storage(const sim_tensor *tensor)
{
    int64_t lowest;
    int64_t highest;

    return !op_tensor_span(tensor, tensor->strides, &lowest, &highest) ||
           __builtin_add_overflow(lowest, tensor->offset, &lowest) ||
           __builtin_add_overflow(highest, tensor->offset, &highest) || lowest < 0 ||
           highest >= op_tensor_storage_elements(tensor);
}

size_t op_tensor_item_bytes(const sim_tensor *tensor)
{
    return aclDataTypeSize(tensor->dtype);
}

uint64_t op_tensor_start(const sim_tensor *tensor, const void *base)
{
    return (uint64_t)(uintptr_t)base + (uint64_t)tensor->offset * op_tensor_item_bytes(tensor);
}
