/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 3 to 9, 10 to 18 and 21 to 25 of the decision table (phase1_revision_a.md, fused operator); a failed check has
   recorded its message. */
#ifndef ACLSIM_OPAPI_REV_A_CHECKS_H_
#define ACLSIM_OPAPI_REV_A_CHECKS_H_

#include "opapi/qkv_phase1.h"

enum { ARGUMENTS = MROPE_POSITION };

/* Of the arguments. */
extern const qkv_order in_order;

aclnnStatus check_parameters(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes);
aclnnStatus check_shapes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);
aclnnStatus check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);

#endif
