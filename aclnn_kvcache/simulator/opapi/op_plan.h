/* SPDX-License-Identifier: Apache-2.0 */
/* What phase 1 decided about a call: shared, never changed, by executors, launches and the executor cache. */
#ifndef ACLSIM_OPAPI_OP_PLAN_H_
#define ACLSIM_OPAPI_OP_PLAN_H_

#include <stdatomic.h>

#include "nnopbase/tensor.h"

enum { MOST_TENSORS = 32 }; /* of an operator */

typedef struct op_plan op_plan;

/* One run of a plan: everything that phase 2 fixes. */
typedef struct {
    op_plan *plan;
    void *workspace;
    uint64_t workspace_bytes; /* as phase 2 says */
    void *bases[]; /* storage bases, one for each tensor of the plan */
} op_launch;

typedef struct {
    const char *name;                      /* of phase 2, for messages */
    const char *const *tensor_names;       /* of the parameters, in their order */
    uint32_t written;                      /* a bit for each tensor that it writes */
    aclError (*run)(const op_launch *launch); /* on the stream's worker; non-zero is a fault */
} op_kernel;

struct op_plan {
    atomic_uint references;
    const op_kernel *kernel; /* NULL when there is nothing to launch */
    uint64_t workspace_bytes;
    void *details; /* the operator's own, a copy */
    size_t tensor_count;
    sim_tensor tensors[]; /* as they were in phase 1; zeroed where an optional one is missing */
};

/* With one reference; NULL when memory is exhausted. */
op_plan *op_plan_create(const op_kernel *kernel, uint64_t workspace_bytes, const void *details, size_t details_bytes,
                        const sim_tensor *const *tensors, size_t tensor_count);
op_plan *op_plan_share(op_plan *plan);
void op_plan_drop(op_plan *plan);

#endif
