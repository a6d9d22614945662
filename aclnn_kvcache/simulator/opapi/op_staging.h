/* SPDX-License-Identifier: Apache-2.0 */
/* How a kernel gets at its tensors: in place, or through a dense copy in the workspace. */
#ifndef ACLSIM_OPAPI_OP_STAGING_H_
#define ACLSIM_OPAPI_OP_STAGING_H_

#include "opapi/op_operand.h"

enum { NOT_STAGED = -1 };

/* Puts a dense copy of the tensor behind what the workspace holds so far; returns the workspace's new end. */
uint64_t op_stage_reserve(const sim_tensor *tensor, uint64_t end, int64_t *staged_at);

/* Where the tensor of this index is to be used, after copying it in if it is staged; false on a fault. */
bool op_stage_in(const op_launch *launch, size_t index, int64_t staged_at, op_operand_place *place);

#endif
