/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_plan.h"

#include <stdlib.h>
#include <string.h>

op_plan *op_plan_create(const op_kernel *kernel, uint64_t workspace_bytes, const void *details, size_t details_bytes,
                        const sim_tensor *const *tensors, size_t tensor_count)
{
    op_plan *plan = calloc(1, sizeof *plan + tensor_count * sizeof plan->tensors[0]);
    void *copy = details_bytes == 0 ? NULL : malloc(details_bytes);

    if (plan == NULL || (details_bytes != 0 && copy == NULL)) {
        free(plan);
        free(copy);
        return NULL;
    }
    atomic_init(&plan->references, 1);
    plan->kernel = kernel;
    plan->workspace_bytes = workspace_bytes;
    plan->details = copy;
    plan->tensor_count = tensor_count;
    if (copy != NULL) {
        memcpy(copy, details, details_bytes);
    }
    for (size_t i = 0; i < tensor_count; i++) {
        if (tensors[i] != NULL) {
            plan->tensors[i] = *tensors[i];
        }
    }
    return plan;
}

op_plan *op_plan_share(op_plan *plan)
{
    atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
    return plan;
}

void op_plan_drop(op_plan *plan)
{
    if (atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) == 1) {
        free(plan->details);
        free(plan);
    }
}
