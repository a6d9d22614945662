/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor handle stands for. The operators read it through sim_handle_get(SIM_TENSOR, …). */
#ifndef ACLSIM_NNOPBASE_TENSOR_H_
#define ACLSIM_NNOPBASE_TENSOR_H_

#include "aclnn/acl_meta.h"

/* CANN's arrays hold this many extents; a greater count is kept as a count (acl_abi 3.3). */
#define SIM_MAX_RANK 25U

typedef struct {
    aclDataType dtype;
    aclFormat format;
    uint64_t rank;
    int64_t dims[SIM_MAX_RANK];
    int64_t strides[SIM_MAX_RANK]; /* in elements */
    int64_t offset;                /* in elements; added to the base at launch */
    uint64_t storage_rank;
    int64_t storage_dims[SIM_MAX_RANK];
    void *base;
} sim_tensor;

/* Extents that are really held. */
static inline uint64_t sim_held_rank(uint64_t rank)
{
    return rank < SIM_MAX_RANK ? rank : SIM_MAX_RANK;
}

/* The strides that the view has when it is row-major without gaps. Wraps instead of overflowing: extents may be
   anything. */
static inline void sim_dense_strides(const sim_tensor *tensor, int64_t strides[SIM_MAX_RANK])
{
    uint64_t stride = 1;

    for (uint64_t axis = sim_held_rank(tensor->rank); axis-- > 0;) {
        strides[axis] = (int64_t)stride;
        stride *= (uint64_t)tensor->dims[axis];
    }
}

#endif
