/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor where a kernel uses it: in place, or in a dense copy. Tensors of kernels have four axes at most. */
#ifndef ACLSIM_OPAPI_OP_OPERAND_H_
#define ACLSIM_OPAPI_OP_OPERAND_H_

#include "opapi/op_plan.h"

/* The live allocation that a kernel's first access would lie in: accesses inside it need no further look-up. */
typedef struct {
    uint64_t start;
    uint64_t bytes; /* 0 when there is none */
    unsigned char *host;
} op_window;

typedef struct {
    uint64_t start;
    uint64_t strides[4]; /* in elements */
    size_t item_bytes;
    const sim_tensor *view;
    op_window window;
} op_operand_place;

/* The tensor of this index where the caller has it. */
op_operand_place op_operand_in_place(const op_launch *launch, size_t index);

/* A dense copy of it at this address. */
op_operand_place op_operand_copy(const op_launch *launch, size_t index, uint64_t start);

#endif
