/* SPDX-License-Identifier: Apache-2.0 */
/* The executor cache: each thread remembers the calls whose phase 1 ran on it and that then ran the plain way
   (observed.md, Executors and lifetimes). ACLNN_CACHE_LIMIT bounds it, DISABLE_L2_CACHE turns it off. */
#ifndef ACLSIM_OPAPI_EXECUTOR_CACHE_H_
#define ACLSIM_OPAPI_EXECUTOR_CACHE_H_

#include "opapi/op_plan.h"

/* A call's identity together with the cache of the thread that made it; phase 2 may run on another thread. */
typedef struct op_cache_ticket op_cache_ticket;

/* NULL when calls are not remembered. */
op_cache_ticket *op_cache_ticket_create(const op_kernel *kernel, const sim_tensor *const *tensors, size_t tensor_count,
                                        const void *attributes, size_t attribute_bytes, int32_t device);
void op_cache_ticket_drop(op_cache_ticket *ticket);

/* The plan of an identical call that was remembered, as a new reference; NULL when there is none. */
op_plan *op_cache_find(const op_cache_ticket *ticket);

/* Remembers the call; the oldest one goes when there are too many. Consumes the ticket. */
void op_cache_remember(op_cache_ticket *ticket, op_plan *plan);

#endif
