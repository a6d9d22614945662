/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_OPAPI_OP_RUN_H_
#define ACLSIM_OPAPI_OP_RUN_H_

#include "opapi/op_plan.h"

/* Phase 2 of every operator; function is its name. Whatever fails inside leaves it as 561000, and the executor is
   consumed either way unless it is repeatable (phase1_revision_a.md, Phase 2; observed.md). */
aclnnStatus op_run(const char *function, void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                   aclrtStream stream);

#endif
