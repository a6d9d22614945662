/* SPDX-License-Identifier: Apache-2.0 */
/* aclnnQkvRmsNormRopeCacheWithKScale, revision A, shared between its phases. */
#ifndef ACLSIM_OPAPI_QKV_H_
#define ACLSIM_OPAPI_QKV_H_

#include "opapi/op_staging.h"

/* In the order of the arguments. */
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
    QKV_TENSORS,
} qkv_tensor;

/* The head axis holds all heads of Q, then of K, then of V; head counts come in that order too. */
typedef enum { Q_HEADS, K_HEADS, V_HEADS, HEAD_KINDS } qkv_heads;

/* Which of tokens and heads is the outer axis. */
typedef enum { TND, NTD } qkv_layout;

enum { HEAD_SIZE = 128 };

/* The arguments beside the tensors. Head counts and layouts hold once the parameters have been checked. */
typedef struct {
    const int64_t *head_nums;
    uint64_t head_nums_length;
    const char *layout_text_in;
    const char *layout_text_out;
    int64_t heads[HEAD_KINDS];
    qkv_layout layout_in;
    qkv_layout layout_out;
    float epsilon;
} qkv_attributes;

typedef struct {
    int64_t staged_at[QKV_TENSORS];
    uint64_t heads[HEAD_KINDS];
    qkv_layout layout_in;
    qkv_layout layout_out;
    float epsilon;
} qkv_details;

/* Names of the parameters in messages, in the order of the tensors. */
extern const char *const qkv_names[QKV_TENSORS];

/* Rows 3 to 9, 10 to 18, 19 to 20 and 21 to 25 of the decision table (phase1_revision_a.md, fused operator); a failed
   check has recorded its message. */
aclnnStatus qkv_check_parameters(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes);
aclnnStatus qkv_check_shapes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);
aclnnStatus qkv_check_storage(const sim_tensor *const tensors[QKV_TENSORS]);
aclnnStatus qkv_check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes);

/* Everything but the caches and the outputs is copied when it is not contiguous. */
bool qkv_is_input(qkv_tensor tensor);

#define QKV_NAME "aclnnQkvRmsNormRopeCacheWithKScale"
extern const op_kernel qkv_kernel;

#endif
