/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the fused operator's kernel. */
#ifndef ACLSIM_OPAPI_QKV_WORK_H_
#define ACLSIM_OPAPI_QKV_WORK_H_

#include "opapi/qkv.h"

typedef struct {
    const qkv_details *details;
    const sim_tensor *tensors;
    op_operand_place places[QKV_TENSORS];
    uint64_t tokens;
    int64_t *slots;      /* of each token, as it stands in the mapping */
    uint64_t *positions; /* row of the table for each token, as the kernel computes it */
    float rotation[HEAD_SIZE * HEAD_SIZE];
} qkv_work;

/* Read what each token needs; false on a fault. */
bool qkv_read_slots(qkv_work *work);
bool qkv_read_positions(qkv_work *work);

#endif
