/* SPDX-License-Identifier: Apache-2.0 */
/* What makes two calls identical: operator, device, dtypes, formats, shapes, strides, offsets, storage shapes and
   attributes, but no address. */
#ifndef ACLSIM_OPAPI_CACHE_KEY_H_
#define ACLSIM_OPAPI_CACHE_KEY_H_

#include "opapi/op_plan.h"

typedef struct {
    uint64_t hash;
    size_t bytes;
    unsigned char data[];
} cache_key;

/* To be freed; NULL when memory is exhausted. */
cache_key *cache_key_create(const op_kernel *kernel, const sim_tensor *const *tensors, size_t tensor_count,
                            const void *attributes, size_t attribute_bytes, int32_t device);
bool cache_key_equal(const cache_key *one, const cache_key *other);

#endif
