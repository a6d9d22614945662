/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the fused operator's kernel. */
#ifndef ACLSIM_OPAPI_QKV_WORK_H_
#define ACLSIM_OPAPI_QKV_WORK_H_

#include "opapi/qkv.h"
#include "opapi/qkv_rows.h"

typedef struct {
    const qkv_details *details;
    const sim_tensor *tensors;
    const qkv_arithmetic *arithmetic;
    op_operand_place places[QKV_TENSORS];
    uint64_t tokens;
    int64_t *slots;      /* of each token, as it stands in the mapping */
    uint64_t *positions; /* of each token POSITION_AXES rows of the table, as the kernel computes them */
    float rotation[HEAD_SIZE * HEAD_SIZE];
} qkv_work;

/* Read what each token needs; false on a fault. */
bool qkv_read_slots(qkv_work *work);
bool qkv_read_positions(qkv_work *work);

/* The row of the table that a token's rows are turned by: of one position, or lane by lane of that of an axis. */
bool qkv_read_angles(const qkv_work *work, uint64_t token, float cos_sin[HEAD_SIZE]);

#endif
