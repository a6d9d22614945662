/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_run.h"

#include <stdlib.h>
#include <string.h>

#include "core/checks.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/message.h"
#include "core/stream.h"
#include "core/untouched.h"
#include "opapi/device_check.h"
#include "opapi/op_clashes.h"
#include "opapi/op_executor.h"
#include "opapi/op_operand.h"
#include "opapi/op_run_checks.h"
#include "opapi/op_workspace.h"
#include "opdev/op_errno.h"

/* The inner status 161001 shows in the text only. */
static aclnnStatus null_pointer(const char *function, const char *parameter)
{
    sim_message("EZ1001", "AclNN_Parameter_Error", "%s: %s is nullptr (%d)", function, parameter,
                ACLNN_ERR_PARAM_NULLPTR);
    return ACLNN_ERR_INNER;
}

/* The workspace comes last: what it has in common with the tensors was reported when it was given. */
static aclError run_launch(void *arg)
{
    const op_launch *launch = arg;

    device_at_no_token();
    op_taint_workspace(launch);
    const aclError fault = launch->plan->kernel->run(launch);
    if (fault != ACL_SUCCESS && !sim_checking(SIM_CHECK_MEM)) {
        sim_message("off", "Simulator_Check_mem", "%s: ACLSIM_CHECK=mem, or aclsim_set_checks(\"mem\"), tells which access "
                    "it was", launch->plan->kernel->name);
    }
    device_report_unwritten();
    op_report_overlapping_tensors(launch->plan->kernel->name);
    op_note_workspace(launch);
    return fault;
}

static void release_launch(void *arg)
{
    op_launch *launch = arg;

    op_plan_drop(launch->plan);
    free(launch);
}

static void report_destroyed(const char *function, const op_executor *executor, size_t index)
{
    const void *handle = executor->operands[index].handle;
    const sim_handle_facts facts = sim_handle_look(handle);
    const char *consequence = executor->shared.kind == SIM_CACHED_WRAPPER ? "uses the address of phase 1"
                              : facts.is_replaced                         ? "uses the address of the tensor that was made "
                                                                            "in its place since"
                                                                          : "reads freed memory";

    sim_report(SIM_CHECK_API, "tensor_destroyed_between_phases", function,
               "tensor %s, %p, was destroyed between phase 1 and phase 2; CANN launches all the same and %s: destroy "
               "tensors behind phase 2",
               executor->plan->kernel->tensor_names[index], handle, consequence);
}

/* The storage base that the launch uses: of a cached wrapper that of phase 1, else what the tensor has now. A tensor
   that is gone makes CANN read freed memory; here nothing is launched, unless its address was kept. */
static bool fix_base(const char *function, const op_executor *executor, size_t index, void **base)
{
    const op_operand *operand = &executor->operands[index];
    const sim_tensor *tensor = operand->handle == NULL ? NULL : sim_handle_get(SIM_TENSOR, operand->handle);
    const bool is_kept = executor->shared.kind == SIM_CACHED_WRAPPER || operand->handle == NULL;

    if (tensor == NULL && operand->handle != NULL) {
        report_destroyed(function, executor, index);
    }
    if (tensor == NULL && !is_kept) {
        sim_message("EZ9999", "AclNN_Inner_Error", "%s: argument %zu of phase 1 does not exist any more", function,
                    index);
        return false;
    }
    *base = is_kept ? operand->base : tensor->base;
    return true;
}

/* What the launch uses, for as long as it is under way: its tensors, the workspace, and an executor that stays. */
static aclError enqueue(op_launch *launch, const void *executor, aclrtStream stream)
{
    const op_plan *plan = launch->plan;
    const uintptr_t workspace = (uintptr_t)launch->workspace;
    sim_use uses[MOST_TENSORS + 2] = {
        {"workspace", launch->workspace, {workspace, workspace + plan->workspace_bytes}, 1},
        {.what = "the executor", .thing = executor},
    };
    size_t count = 2;

    for (size_t i = 0; sim_order_watched() && i < plan->tensor_count && i < MOST_TENSORS; i++) {
        const op_operand_place place = op_operand_in_place(launch, i);
        uses[count++] = (sim_use){place.name, launch->bases[i], {place.low, place.end}, plan->kernel->written >> i & 1};
    }
    const sim_task task = {plan->kernel->name, run_launch, release_launch, launch, uses, count};
    return sim_stream_enqueue(stream, task, 1);
}

static op_launch *create_launch(const char *function, const op_executor *executor, void *workspace,
                                uint64_t workspace_bytes)
{
    op_plan *plan = executor->plan;
    op_launch *launch = calloc(1, sizeof *launch + plan->tensor_count * sizeof launch->bases[0]);

    if (launch == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < plan->tensor_count; i++) {
        if (!fix_base(function, executor, i, &launch->bases[i])) {
            free(launch);
            return NULL;
        }
    }
    launch->workspace = workspace;
    launch->workspace_bytes = workspace_bytes;
    launch->plan = op_plan_share(plan);
    return launch;
}

static aclnnStatus launch_executor(const char *function, const op_executor *executor, const void *handle,
                                   void *workspace, uint64_t workspace_size, aclrtStream stream)
{
    const op_plan *plan = executor->plan;

    if (plan->kernel == NULL) {
        return ACLNN_SUCCESS;
    }
    op_check_workspace(function, workspace, workspace_size, plan->workspace_bytes);
    op_launch *launch = create_launch(function, executor, workspace, workspace_size);
    if (launch == NULL) {
        return ACLNN_ERR_INNER;
    }
    op_check_operands(function, launch);
    op_report_workspace_overlaps(function, launch);
    const aclError error = enqueue(launch, executor->shared.repeatable ? handle : NULL, stream);
    if (error != ACL_SUCCESS) {
        sim_message("EZ9999", "AclNN_Inner_Error", "%s: the launch failed with %d", function, error);
        return ACLNN_ERR_INNER;
    }
    return ACLNN_SUCCESS;
}

/* Takes the executor out of use unless it stays for more runs; NULL when it is not there. */
static op_executor *claim(const char *function, const void *handle, bool is_kept_if_repeatable)
{
    op_executor *executor = sim_handle_get(SIM_EXECUTOR, handle);

    if (executor != NULL && !(executor->shared.repeatable && is_kept_if_repeatable)) {
        executor = sim_handle_remove(SIM_EXECUTOR, handle, function);
    }
    if (executor == NULL) {
        sim_report_handle(function, "executor", SIM_EXECUTOR, handle);
        sim_message("EZ9999", "AclNN_Inner_Error", "%s: the executor is not usable any more", function);
    }
    return executor;
}

aclnnStatus op_run(const char *function, void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                   aclrtStream stream)
{
    if (executor == NULL) {
        sim_report_untouched(function, "executor", NULL);
        return null_pointer(function, "executor");
    }
    const bool has_workspace = workspace != NULL || workspace_size == 0;
    op_executor *object = claim(function, executor, has_workspace);
    if (object == NULL) {
        return ACLNN_ERR_INNER;
    }
    if (!has_workspace) {
        object->shared.release(&object->shared);
        return null_pointer(function, "workspace");
    }
    if (object->plan->kernel != NULL && strcmp(object->plan->kernel->name, function) != 0) {
        sim_report(SIM_CHECK_API, "executor_of_another_operator", function,
                   "the executor is one of %s, which is what runs: pass it to that phase 2", object->plan->kernel->name);
    }
    const aclnnStatus status = launch_executor(function, object, executor, workspace, workspace_size, stream);
    if (object->shared.repeatable) {
        return status;
    }
    if (status == ACLNN_SUCCESS && object->ticket != NULL) {
        op_cache_remember(object->ticket, object->plan);
        object->ticket = NULL;
    }
    object->shared.release(&object->shared);
    return status;
}
