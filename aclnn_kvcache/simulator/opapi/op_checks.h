/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of phase 1 that do not depend on the operator. A failed one has recorded its message. */
#ifndef ACLSIM_OPAPI_OP_CHECKS_H_
#define ACLSIM_OPAPI_OP_CHECKS_H_

#include "nnopbase/tensor.h"

/* The out-parameters of phase 1: what every operator looks at first. */
aclnnStatus op_check_outputs(const uint64_t *workspace_size, aclOpExecutor *const *executor);

/* The tensors behind the handles, none of which is NULL. */
aclnnStatus op_read_tensors(const char *function, const void *const *handles, size_t count,
                            const sim_tensor **tensors);

/* Making a view looks at the offset, and at nothing else of the storage. */
aclnnStatus op_check_view(const sim_tensor *tensor);

/* The tiling starts with the platform, which needs a device (observed.md: 561103 naming aclrtGetDevice and 107002). */
aclnnStatus op_check_device(int32_t *device);

/* The kernels of the operator for the product. CANN looks them up behind everything else that phase 1 checks, so that
   wrong tensors get the answers that they get elsewhere (scatter_pa_kv_cache_with_k_scale.md, 3, and
   qkv_rms_norm_rope_cache_with_k_scale.md, 3, name it last). An empty call of scatter needs none. */
aclnnStatus op_check_kernels(const char *function);

/* Adds the layers above a failed tiling to its message and returns the status that comes out of them. */
aclnnStatus op_tiling_failed(const char *function);

#endif
