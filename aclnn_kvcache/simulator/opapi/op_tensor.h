/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about a tensor's view that operators ask for. */
#ifndef ACLSIM_OPAPI_OP_TENSOR_H_
#define ACLSIM_OPAPI_OP_TENSOR_H_

#include "nnopbase/tensor.h"

/* Some extent is 0; a negative one is no emptiness (phase1_revision_a.md). */
bool op_tensor_is_empty(const sim_tensor *tensor);

/* Row-major without gaps; axes of extent 1 are not looked at, whatever their stride. What goes down never is: an extent
   below zero makes the strides outside it so (phase1_revision_b.md, To be copied). */
bool op_tensor_is_contiguous(const sim_tensor *tensor);

/* Products of extents; wrap where the product does not fit. */
uint64_t op_tensor_elements(const sim_tensor *tensor);
int64_t op_tensor_storage_elements(const sim_tensor *tensor);

/* Extent of an axis as a number of elements: a negative one holds none. */
uint64_t op_tensor_count(const sim_tensor *tensor, uint64_t axis);

/* Offsets of the lowest and the highest element from the first, with these strides and no extent of 0; false when they
   do not fit. */
bool op_tensor_span(const sim_tensor *tensor, const int64_t *strides, int64_t *lowest, int64_t *highest);

/* Some element lies in front of the storage or behind it, going by offset, extents and strides. */
bool op_tensor_leaves_storage(const sim_tensor *tensor);

/* Bytes of one element. */
size_t op_tensor_item_bytes(const sim_tensor *tensor);

/* Device address of the view's first element, given the storage's base. */
uint64_t op_tensor_start(const sim_tensor *tensor, const void *base);

#endif
