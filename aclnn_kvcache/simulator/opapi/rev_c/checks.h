/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 9 to 18, 19 to 38 and 39 to 44 of the decision table (phase1_revision_c.md). They happen in shape inference and
   tiling, so a failed one has recorded its message and leaves as 161002; names are the operator's own. */
#ifndef ACLSIM_OPAPI_REV_C_CHECKS_H_
#define ACLSIM_OPAPI_REV_C_CHECKS_H_

#include "opapi/qkv_phase1.h"

bool infer(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes);
bool check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);
bool check_strides(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);

#endif
