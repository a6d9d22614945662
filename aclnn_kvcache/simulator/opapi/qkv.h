/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnQkvRmsNormRopeCacheWithKScale, what its phases and its revisions share. */
#ifndef ACLSIM_OPAPI_QKV_H_
#define ACLSIM_OPAPI_QKV_H_

#include "opapi/op_staging.h"

/* In the order of the arguments of revision A; the last one came with revision B. */
typedef enum {
    QKV,
    Q_GAMMA,
    K_GAMMA,
    COS_SIN,
    SLOT_MAPPING,
    K_CACHE,
    V_CACHE,
    K_SCALE_CACHE,
    QUERY_START_LOC,
    SEQ_LENS,
    ROTATION,
    V_SCALE,
    Q_OUT,
    Q_SCALE,
    MROPE_POSITION,
    QKV_TENSORS,
} qkv_tensor;

/* The head axis holds all heads of Q, then of K, then of V; head counts come in that order too. */
typedef enum { Q_HEADS, K_HEADS, V_HEADS, HEAD_KINDS } qkv_heads;

/* Which of tokens and heads is the outer axis. */
typedef enum { TND, NTD } qkv_layout;

/* Revision A has the first, B the first two, C all. */
typedef enum { ROPE, MROPE, MX, SCENES } qkv_scene;

enum { POSITION_AXES = 3 };

/* The arguments beside the tensors. Scene, head counts and layouts hold once the parameters have been checked. */
typedef struct {
    const int64_t *head_nums;
    uint64_t head_nums_length;
    const int64_t *section;
    uint64_t section_length; /* 0 for none */
    const char *layout_text_in;
    const char *layout_text_out;
    const char *q_mode;
    const char *k_mode;
    float epsilon;

    qkv_scene scene;
    int64_t heads[HEAD_KINDS];
    qkv_layout layout_in;
    qkv_layout layout_out;
} qkv_attributes;

enum { QKV_ABSENT = NOT_STAGED - 1 };

/* What the kernel has to know; tensors that are not given are staged at QKV_ABSENT. */
typedef struct {
    int64_t staged_at[QKV_TENSORS];
    qkv_scene scene;
    uint64_t heads[HEAD_KINDS];
    uint64_t section[POSITION_AXES];
    qkv_layout layout_in;
    qkv_layout layout_out;
    float epsilon;
} qkv_details;

/* Names of the parameters in messages, in the order of the tensors. */
extern const char *const qkv_names[QKV_TENSORS];

#define QKV_NAME "aclnnQkvRmsNormRopeCacheWithKScale"
extern const op_kernel qkv_kernel;

#endif
