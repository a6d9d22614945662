/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of good calls: in a block of their own, with gaps on every side. */
#include <string.h>
#include "fuzz.h"

static void finish(world *w, tensor *t, aclDataType dtype, uint64_t rank, const int64_t *dims, int64_t after)
{
    int64_t elements = t->offset + after + 1;
    t->rank = rank;
    memcpy(t->dims, dims, rank * sizeof *dims);
    for (uint64_t axis = 0; axis < rank; axis++) {
        elements += dims[axis] > 0 ? (dims[axis] - 1) * t->strides[axis] : 0;
    }
    t->item = aclDataTypeSize(dtype);
    t->block = block_new(w, (size_t)elements * t->item);
    t->handle = aclCreateTensor(t->dims, rank, dtype, t->strides, t->offset, ACL_FORMAT_ND, &elements, 1,
                                t->block->device);
    REQUIRE(w, t->handle != NULL, "no tensor was made");
}

void tensor_make(world *w, tensor *t, aclDataType dtype, uint64_t rank, const int64_t *dims, const tensor *same_strides)
{
    int64_t stride = 1;
    for (uint64_t axis = rank; axis-- > 0;) {
        t->strides[axis] = same_strides == NULL ? stride : same_strides->strides[axis];
        stride *= dims[axis] > 0 ? dims[axis] : 1;
        stride += one_in(w, 3) && axis + 1 < rank + (uint64_t)(rank == 1) ? between(w, 0, 3) : 0;
    }
    t->offset = one_in(w, 2) ? between(w, 0, 9) : 0;
    finish(w, t, dtype, rank, dims, between(w, 0, 9));
}

void tensor_dense(world *w, tensor *t, aclDataType dtype, uint64_t rank, const int64_t *dims)
{
    int64_t stride = 1;
    for (uint64_t axis = rank; axis-- > 0;) {
        t->strides[axis] = stride;
        stride *= dims[axis];
    }
    t->offset = 0;
    finish(w, t, dtype, rank, dims, between(w, 0, 5));
}

uint8_t *tensor_at(const tensor *t, int64_t i, int64_t j, int64_t k, int64_t l)
{
    const int64_t index[4] = {i, j, k, l};
    int64_t element = t->offset;
    for (uint64_t axis = 0; axis < t->rank; axis++) {
        element += index[axis] * t->strides[axis];
    }
    return t->block->expected + (size_t)element * t->item;
}

void tensors_publish(world *w, tensor *tensors, size_t count, int stream)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].handle != NULL) {
            block_upload(w, tensors[i].block);
            block_use(w, tensors[i].block, stream);
        }
    }
}

void tensors_drop(world *w, tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].handle == NULL) {
            continue;
        }
        GOOD(w, aclDestroyTensor(tensors[i].handle));
        remember_stale(w, tensors[i].handle);
        if (one_in(w, 2)) {
            block_free(w, tensors[i].block);
        } else {
            block_verify(w, tensors[i].block);
        }
    }
}
