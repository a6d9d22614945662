/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_executor.h"

#include <stdlib.h>

#include "core/handle.h"
#include "core/message.h"
#include "core/untouched.h"
#include "opdev/op_errno.h"

static void release(sim_executor *shared)
{
    op_executor *executor = (op_executor *)(void *)shared;

    if (executor->ticket != NULL) {
        op_cache_ticket_drop(executor->ticket);
    }
    if (executor->plan != NULL) {
        op_plan_drop(executor->plan);
    }
    free(executor);
}

static op_executor *create(const op_call *call)
{
    op_executor *executor = calloc(1, sizeof *executor + call->tensor_count * sizeof executor->operands[0]);

    if (executor == NULL) {
        return NULL;
    }
    executor->shared.kind = SIM_COMPOSITE;
    executor->shared.single_use = call->abandons_cache;
    executor->shared.release = release;
    for (size_t i = 0; i < call->tensor_count; i++) {
        executor->operands[i].handle = call->handles[i];
        executor->operands[i].base = call->tensors[i] == NULL ? NULL : call->tensors[i]->base;
    }
    /* A call that launches nothing leaves nothing to remember. */
    if (call->abandons_cache == NULL && call->kernel != NULL) {
        executor->ticket = op_cache_ticket_create(call->kernel, call->tensors, call->tensor_count, call->attributes,
                                                  call->attribute_bytes, call->device);
    }
    return executor;
}

/* The plan of an identical earlier call of this thread, or a new one. */
static op_plan *find_plan(op_executor *executor, const op_call *call)
{
    op_plan *known = executor->ticket == NULL ? NULL : op_cache_find(executor->ticket);

    if (known == NULL) {
        return op_plan_create(call->kernel, call->workspace_bytes, call->details, call->details_bytes, call->tensors,
                              call->tensor_count);
    }
    executor->shared.kind = SIM_CACHED_WRAPPER;
    executor->shared.single_use = "it comes from the executor cache";
    op_cache_ticket_drop(executor->ticket);
    executor->ticket = NULL;
    return known;
}

aclnnStatus op_executor_give(const op_call *call, uint64_t *workspace_size, aclOpExecutor **executor)
{
    op_executor *object = create(call);
    void *handle = NULL;

    if (object != NULL) {
        object->plan = find_plan(object, call);
        if (object->plan != NULL) {
            handle = sim_handle_create(SIM_EXECUTOR, object, call->function);
        }
    }
    if (handle == NULL) {
        if (object != NULL) {
            release(&object->shared);
        }
        sim_message("EZ9999", "AclNN_Inner_Error", "the executor cannot be created (%d)",
                    ACLNN_ERR_INNER_CREATE_EXECUTOR);
        return ACLNN_ERR_INNER_CREATE_EXECUTOR;
    }
    *workspace_size = object->plan->workspace_bytes;
    *executor = handle;
    sim_untouched_end();
    return ACLNN_SUCCESS;
}
