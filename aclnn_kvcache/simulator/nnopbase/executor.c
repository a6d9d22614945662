/* SPDX-License-Identifier: Apache-2.0 */
#include "nnopbase/executor.h"

#include "core/export.h"
#include "core/faults.h"
#include "core/handle_report.h"
#include "core/in_flight.h"
#include "core/message.h"
#include "nnopbase/arguments.h"
#include "opdev/op_errno.h"

SIM_EXPORT aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor)
{
    SIM_CALL(aclSetAclOpExecutorRepeatable(executor));
    if (executor == NULL) {
        return sim_null_argument(__func__, "executor", ACLNN_ERR_INNER_NULLPTR);
    }
    sim_executor *object = sim_live_object(SIM_EXECUTOR, executor, __func__, "executor");
    if (object == NULL) {
        return ACLNN_ERR_INNER;
    }
    if (object->single_use != NULL) {
        sim_message("EZ9999", "AclNN_Inner_Error", "%s: the executor cannot be made repeatable: %s", __func__,
                    object->single_use);
        return ACLNN_ERR_INNER;
    }
    object->repeatable = true;
    return ACLNN_SUCCESS;
}

/* After phase 2 this was a double free on CANN that answered 0 (observed.md, Executors and lifetimes). */
SIM_EXPORT aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    SIM_CALL(aclDestroyAclOpExecutor(executor));
    if (executor == NULL) {
        return sim_null_argument(__func__, "executor", ACLNN_ERR_INNER_NULLPTR);
    }
    sim_executor *object = sim_handle_remove(SIM_EXECUTOR, executor, __func__);
    if (object == NULL) {
        sim_report_handle(__func__, "executor", SIM_EXECUTOR, executor);
        return ACLNN_SUCCESS;
    }
    sim_in_flight_end(__func__, "destroyed_in_flight", executor, 1, "executor %p", (void *)executor);
    object->release(object);
    return ACLNN_SUCCESS;
}
