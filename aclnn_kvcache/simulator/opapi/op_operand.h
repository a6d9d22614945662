/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor where a kernel uses it: in place, or in a dense copy. Tensors of kernels have four axes at most. */
#ifndef ACLSIM_OPAPI_OP_OPERAND_H_
#define ACLSIM_OPAPI_OP_OPERAND_H_

#include "opapi/op_plan.h"

typedef struct {
    uint64_t start;
    uint64_t strides[4]; /* in elements */
    size_t item_bytes;

    /* What the checks hold an access against, and how a report names the tensor. */
    const char *kernel;
    const char *name;
    const sim_tensor *view;
    bool is_copy;
    size_t index;  /* among the arguments */
    uint64_t low;  /* the first address that belongs to the tensor */
    uint64_t end;  /* and the first behind the last */
} op_operand_place;

/* The tensor of this index where the caller has it. */
op_operand_place op_operand_in_place(const op_launch *launch, size_t index);

/* A dense copy of it at this address. */
op_operand_place op_operand_copy(const op_launch *launch, size_t index, uint64_t start);

#endif
