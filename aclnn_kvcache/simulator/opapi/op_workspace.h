/* SPDX-License-Identifier: Apache-2.0 */
/* A launch's workspace: memory that is the call's alone while it runs. */
#ifndef ACLSIM_OPAPI_OP_WORKSPACE_H_
#define ACLSIM_OPAPI_OP_WORKSPACE_H_

#include "opapi/op_plan.h"

/* Reports each tensor that has elements in it. CANN does not look. */
void op_report_workspace_overlaps(const char *function, const op_launch *launch);

/* Before the kernel runs: the workspace holds anything, for what an earlier call left in it is nothing to count on. Of
   one that is too small, what there is of it; one that lies on the caller's tensors stays as it is. */
void op_taint_workspace(const op_launch *launch);

/* Tells the checks that the call has the workspace, all of it, to itself. */
void op_note_workspace(const op_launch *launch);

#endif
