/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 3 to 8, 9 to 18, 19 to 29 and 33 to 36 of the decision table (phase1_revision_b.md); a failed check has recorded
   its message. */
#ifndef ACLSIM_OPAPI_REV_B_CHECKS_H_
#define ACLSIM_OPAPI_REV_B_CHECKS_H_

#include "opapi/qkv_phase1.h"

/* In which tensors are gone through from row 9 on. */
extern const qkv_order in_order;

aclnnStatus check_scene(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes);
aclnnStatus check_parameters(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes);
aclnnStatus check_shapes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);
aclnnStatus check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);

#endif
