/* SPDX-License-Identifier: Apache-2.0 */
/* What the API check says of the memory that phase 2 is given. CANN looks at none of this. */
#ifndef ACLSIM_OPAPI_OP_RUN_CHECKS_H_
#define ACLSIM_OPAPI_OP_RUN_CHECKS_H_

#include "opapi/op_plan.h"

/* Whether the workspace is as large as it says and as phase 1 wants, and device memory. */
void op_check_workspace(const char *function, const void *workspace, uint64_t given, uint64_t wanted);

/* Whether the memory of the tensors is aligned, and the current device reaches it. */
void op_check_operands(const char *function, const op_launch *launch);

#endif
