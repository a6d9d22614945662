/* SPDX-License-Identifier: Apache-2.0 */
/* Executors of the operators: made by phase 1, consumed by phase 2. */
#ifndef ACLSIM_OPAPI_OP_EXECUTOR_H_
#define ACLSIM_OPAPI_OP_EXECUTOR_H_

#include "nnopbase/executor.h"
#include "opapi/executor_cache.h"
#include "opapi/op_plan.h"

/* A phase 1 that passed its checks. */
typedef struct {
    const char *function;    /* that is phase 1 */
    const op_kernel *kernel; /* NULL when there is nothing to launch */
    uint64_t workspace_bytes;
    const void *details;
    size_t details_bytes;
    size_t tensor_count;
    const void *const *handles;          /* NULL where an optional tensor is missing */
    const sim_tensor *const *tensors;    /* likewise */
    const void *attributes;              /* what else tells two calls apart, for the cache */
    size_t attribute_bytes;
    int32_t device;
    const char *abandons_cache; /* why the call can neither be cached nor repeated; NULL when it can */
} op_call;

typedef struct {
    const void *handle;
    void *base; /* of phase 1 */
} op_operand;

typedef struct {
    sim_executor shared; /* what nnopbase knows of it; first */
    op_plan *plan;
    op_cache_ticket *ticket; /* where a plain run is remembered; NULL when it is not */
    op_operand operands[];
} op_executor;

/* The executor and its workspace size; the out-parameters change on success only. */
aclnnStatus op_executor_give(const op_call *call, uint64_t *workspace_size, aclOpExecutor **executor);

#endif
