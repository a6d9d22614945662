/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor where a kernel uses it: in place, or in a dense copy. */
#ifndef ACLSIM_OPAPI_OP_OPERAND_H_
#define ACLSIM_OPAPI_OP_OPERAND_H_

#include "opapi/op_plan.h"

/* The most that a kernel walks; outputs that it takes for dense may have more. */
enum { KERNEL_AXES = 4 };

/* The live allocation that a kernel's first access would lie in: accesses inside it need no further look-up. There is
   none while the checks look at each access by itself. */
typedef struct {
    uint64_t start;
    uint64_t bytes; /* 0 when there is none */
    unsigned char *host;
} op_window;

typedef struct {
    uint64_t start;
    uint64_t strides[KERNEL_AXES]; /* in elements */
    size_t item_bytes;
    op_window window;

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
