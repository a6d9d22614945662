/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of phase 1 that do not depend on the operator. A failed one has recorded its message. */
#ifndef ACLSIM_OPAPI_OP_CHECKS_H_
#define ACLSIM_OPAPI_OP_CHECKS_H_

#include "nnopbase/tensor.h"

/* The out-parameters of phase 1: what every operator looks at first. */
aclnnStatus op_check_outputs(const char *function, const uint64_t *workspace_size, aclOpExecutor *const *executor);

/* What a phase 1 may leave there when it fails. */
void op_scribble(uint64_t *workspace_size, aclOpExecutor **executor);

/* The tensors behind the handles; NULL stays NULL. */
aclnnStatus op_read_tensors(const char *function, const void *const *handles, size_t count,
                            const sim_tensor **tensors);

/* Making a view looks at the offset, and at nothing else of the storage. */
aclnnStatus op_check_view(const sim_tensor *tensor);

/* The tiling starts with the platform, which needs a device (observed.md: 561103 naming aclrtGetDevice and 107002). */
aclnnStatus op_check_device(const char *function, int32_t *device);

/* The kernels of the operator for the product. This comes last: behind the operator's own checks (161001, 161002) for
   sure, since those happen a layer further out, and behind the tiling because both operators' lists of checks name it
   there. The second is unverified and changes the message alone, the status being 561103 either way. An empty call of
   scatter needs no kernels. */
aclnnStatus op_check_kernels(const char *function);

/* Adds the layers above a failed tiling to its message and returns the status that comes out of them. */
aclnnStatus op_tiling_failed(const char *function);

#endif
