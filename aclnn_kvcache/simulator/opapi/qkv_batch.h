/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of some tokens on their way through the arithmetic: what touches device memory happens on the stream's own
   thread and token by token, what is between is split over the cores. */
#ifndef ACLSIM_OPAPI_QKV_BATCH_H_
#define ACLSIM_OPAPI_QKV_BATCH_H_

#include "opapi/qkv_work.h"

enum { SCALE_BYTES = 4 };

/* What Q or K of a scene goes through. */
typedef struct {
    qkv_gamma_place gamma_place;
    bool is_rotated;
    qkv_conversion conversion;
    size_t row_bytes; /* of the result */
    size_t scale_bytes;
} qkv_recipe;

typedef struct {
    const qkv_work *work;
    const qkv_recipe *recipe;
    const float *gamma;   /* a row; NULL where rows are only multiplied by factors */
    const float *factors; /* a row for each head */
    uint64_t heads;
    uint64_t most_tokens;
    uint64_t tokens;

    /* Of each token: */
    float (*angles)[HEAD_SIZE];
    /* Of each token and head: */
    uint16_t (*rows)[HEAD_SIZE];
    unsigned char *results;
    unsigned char (*scales)[SCALE_BYTES];
} qkv_batch;

/* false when memory is exhausted. */
bool qkv_batch_open(qkv_batch *batch);
void qkv_batch_close(qkv_batch *batch);

/* All rows of the batch's tokens. */
void qkv_batch_compute(qkv_batch *batch);

#endif
