/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 10 to 18 of the decision table (phase1_revision_a.md, fused operator): shapes against each other. */
#include "core/message.h"
#include "opapi/qkv.h"
#include "opapi/qkv_messages.h"
#include "opdev/op_errno.h"

/* What an axis has to be: an extent known by now, anything, or long enough for one batch. */
typedef enum { T, NQ, NK, NV, D, ONE, BATCHES, BLOCKS, BLOCK_SIZE, OUT_OUTER, OUT_INNER, LETTERS, ANY, BATCH } letter;

typedef struct {
    qkv_tensor tensor;
    uint64_t rank;
    letter axes[4];
} shape;

/* In order; two tensors of one rule are named together whichever of them is wrong. */
static const struct {
    const char *code;
    const char *title;
    const char *solution;
    const char *rule;
    shape shapes[2]; /* the second one of rank 0 where there is none */
} rules[] = {
    {BAD_SHAPES, "qGamma and kGamma have one entry a channel", {{Q_GAMMA, 1, {D}}, {K_GAMMA, 1, {D}}}},
    {BAD_SHAPE, "cosSin has one row a position and one column a channel", {{COS_SIN, 2, {ANY, D}}}},
    {BAD_SHAPE, "slotMapping has one entry a token", {{SLOT_MAPPING, 1, {T}}}},
    {BAD_SHAPE, "queryStartLoc has two entries or more", {{QUERY_START_LOC, 1, {BATCH}}}},
    {BAD_SHAPE, "seqLens has one entry a batch", {{SEQ_LENS, 1, {BATCHES}}}},
    {BAD_SHAPE, "rotationOptional is a square of channels", {{ROTATION, 2, {D, D}}}},
    {BAD_SHAPE, "vScaleOptional has one entry a V head", {{V_SCALE, 1, {NV}}}},
    {BAD_SHAPE, "kCacheRef has blocks of K heads, rows and channels", {{K_CACHE, 4, {ANY, NK, ANY, D}}}},
    {BAD_SHAPE, "vCacheRef has blocks of V heads, rows and channels", {{V_CACHE, 4, {ANY, NV, ANY, D}}}},
    {BAD_SHAPE, "kScaleCacheRef has blocks of K heads, rows and one value",
     {{K_SCALE_CACHE, 4, {ANY, NK, ANY, ONE}}}},
    {BAD_SHAPES, "kCacheRef and kScaleCacheRef have the same blocks",
     {{K_SCALE_CACHE, 4, {BLOCKS, ANY, BLOCK_SIZE, ANY}}}},
    {BAD_SHAPES, "vCacheRef and kCacheRef have the same blocks", {{V_CACHE, 4, {BLOCKS, ANY, BLOCK_SIZE, ANY}}}},
    {BAD_SHAPES, "qOut and qScale have one row a token and head, in the order of the layout",
     {{Q_OUT, 3, {OUT_OUTER, OUT_INNER, D}}, {Q_SCALE, 2, {OUT_OUTER, OUT_INNER}}}},
};

static bool fits(letter wanted, int64_t extent, const int64_t extents[LETTERS])
{
    return wanted == ANY || (wanted == BATCH ? extent >= 2 : extent == extents[wanted]);
}

static aclnnStatus check_rule(size_t index, const sim_tensor *tensor, const shape *wanted,
                              const int64_t extents[LETTERS])
{
    const char *const code = rules[index].code;
    const char *const title = rules[index].title;
    const char *const solution = rules[index].solution;

    if (tensor->rank != wanted->rank) {
        sim_message_solution(code, title, solution, "%s: %llu dimensions instead of %llu", rules[index].rule,
                             (unsigned long long)tensor->rank, (unsigned long long)wanted->rank);
        return ACLNN_ERR_PARAM_INVALID;
    }
    for (uint64_t axis = 0; axis < tensor->rank; axis++) {
        const letter needed = wanted->axes[axis];
        if (!fits(needed, tensor->dims[axis], extents)) {
            sim_message_solution(code, title, solution, "%s: dimension %llu is %lld instead of %lld", rules[index].rule,
                                 (unsigned long long)axis, (long long)tensor->dims[axis],
                                 needed == BATCH ? 2LL : (long long)extents[needed]);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

/* Rows 10 to 12: the tensor that the others are measured by. */
static aclnnStatus check_qkv(const sim_tensor *qkv, const qkv_attributes *attributes)
{
    const int64_t *heads = attributes->heads;
    /* Counts may be anything; the sum wraps instead of overflowing. */
    const int64_t sum = (int64_t)((uint64_t)heads[Q_HEADS] + (uint64_t)heads[K_HEADS] + (uint64_t)heads[V_HEADS]);

    if (qkv->rank != 3) {
        sim_message_solution(BAD_RANK, "qkv has %llu dimensions but needs 3", (unsigned long long)qkv->rank);
        return ACLNN_ERR_PARAM_INVALID;
    }
    const int64_t head_axis = qkv->dims[attributes->layout_in == TND ? 1 : 0];
    if (head_axis != sum) {
        sim_message_solution(BAD_VALUES, "qkv has %lld heads but headNums adds up to %lld", (long long)head_axis,
                             (long long)sum);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (qkv->dims[2] != HEAD_SIZE) {
        sim_message_solution(BAD_VALUE, "D is %lld but must be %d", (long long)qkv->dims[2], HEAD_SIZE);
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_check_shapes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    aclnnStatus status = check_qkv(tensors[QKV], attributes);
    const int64_t tokens = tensors[QKV]->dims[attributes->layout_in == TND ? 0 : 1];
    const bool is_token_major = attributes->layout_out == TND;
    const int64_t extents[LETTERS] = {
        [T] = tokens,
        [NQ] = attributes->heads[Q_HEADS],
        [NK] = attributes->heads[K_HEADS],
        [NV] = attributes->heads[V_HEADS],
        [D] = HEAD_SIZE,
        [ONE] = 1,
        [BATCHES] = (int64_t)((uint64_t)tensors[QUERY_START_LOC]->dims[0] - 1),
        [BLOCKS] = tensors[K_CACHE]->dims[0],
        [BLOCK_SIZE] = tensors[K_CACHE]->dims[2],
        [OUT_OUTER] = is_token_major ? tokens : attributes->heads[Q_HEADS],
        [OUT_INNER] = is_token_major ? attributes->heads[Q_HEADS] : tokens,
    };

    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        for (size_t j = 0; j < 2 && rules[i].shapes[j].rank != 0 && status == ACLNN_SUCCESS; j++) {
            status = check_rule(i, tensors[rules[i].shapes[j].tensor], &rules[i].shapes[j], extents);
        }
    }
    return status;
}
