/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes against each other, as tables. */
#ifndef ACLSIM_OPAPI_QKV_RULES_H_
#define ACLSIM_OPAPI_QKV_RULES_H_

#include "opapi/qkv.h"

/* What an axis has to be: an extent known by now, anything, one of a range. */
typedef enum {
    T,
    NQ,
    NK,
    NV,
    D,
    ONE,
    AXES,   /* of a position */
    GROUPS, /* of channels that share an exponent */
    BATCHES,
    BLOCKS,
    BLOCK_SIZE,
    OUT_OUTER,
    OUT_INNER,
    LETTERS,
    ANY = LETTERS,
    TWO_OR_MORE,
    POSITIVE,
} qkv_letter;

typedef struct {
    qkv_tensor tensor;
    uint64_t rank;
    qkv_letter axes[4];
} qkv_shape;

#define IN(scene) (1U << (scene))
#define IN_ALL (IN(ROPE) | IN(MROPE) | IN(MX))

/* Two tensors of one rule are named together whichever of them is wrong. */
typedef struct {
    const char *code;
    const char *title;
    const char *solution;
    const char *rule; /* with the names of the tensors, and of no others */
    unsigned scenes;
    qkv_shape shapes[2]; /* the second one of rank 0 where there is none */
} qkv_rule;

/* The rules of the scene, in order. A failed one has recorded its message. Tensors that stand in no rule may be
   missing, and what they would tell is not asked for then. */
bool qkv_check_rules(const qkv_rule *rules, size_t count, const sim_tensor *const tensors[QKV_TENSORS],
                     const qkv_attributes *attributes);

#endif
