/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 10 to 18 of the decision table (phase1_revision_a.md, fused operator): shapes against each other. */
#include "opapi/qkv_messages.h"
#include "opapi/qkv_rules.h"
#include "opapi/rev_a/checks.h"
#include "opdev/op_errno.h"

/* Rows 13 to 18. */
static const qkv_rule rules[] = {
    {BAD_SHAPES, "qGamma and kGamma have one entry a channel", IN_ALL, {{Q_GAMMA, 1, {D}}, {K_GAMMA, 1, {D}}}},
    {BAD_SHAPE, "cosSin has one row a position and one column a channel", IN_ALL, {{COS_SIN, 2, {ANY, D}}}},
    {BAD_SHAPE, "slotMapping has one entry a token", IN_ALL, {{SLOT_MAPPING, 1, {T}}}},
    {BAD_SHAPE, "queryStartLoc has two entries or more", IN_ALL, {{QUERY_START_LOC, 1, {TWO_OR_MORE}}}},
    {BAD_SHAPE, "seqLens has one entry a batch", IN_ALL, {{SEQ_LENS, 1, {BATCHES}}}},
    {BAD_SHAPE, "rotationOptional is a square of channels", IN_ALL, {{ROTATION, 2, {D, D}}}},
    {BAD_SHAPE, "vScaleOptional has one entry a V head", IN_ALL, {{V_SCALE, 1, {NV}}}},
    {BAD_SHAPE, "kCacheRef has blocks of K heads, rows and channels", IN_ALL, {{K_CACHE, 4, {ANY, NK, ANY, D}}}},
    {BAD_SHAPE, "vCacheRef has blocks of V heads, rows and channels", IN_ALL, {{V_CACHE, 4, {ANY, NV, ANY, D}}}},
    {BAD_SHAPE, "kScaleCacheRef has blocks of K heads, rows and one value", IN_ALL,
     {{K_SCALE_CACHE, 4, {ANY, NK, ANY, ONE}}}},
    {BAD_SHAPES, "kCacheRef and kScaleCacheRef have the same blocks", IN_ALL,
     {{K_SCALE_CACHE, 4, {BLOCKS, ANY, BLOCK_SIZE, ANY}}}},
    {BAD_SHAPES, "vCacheRef and kCacheRef have the same blocks", IN_ALL,
     {{V_CACHE, 4, {BLOCKS, ANY, BLOCK_SIZE, ANY}}}},
    {BAD_SHAPES, "qOut and qScale have one row a token and head, in the order of the layout", IN_ALL,
     {{Q_OUT, 3, {OUT_OUTER, OUT_INNER, D}}, {Q_SCALE, 2, {OUT_OUTER, OUT_INNER}}}},
};

aclnnStatus check_shapes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    const aclnnStatus status = qkv_check_axes(tensors[QKV], attributes);

    if (status == ACLNN_SUCCESS && !qkv_check_rules(rules, sizeof rules / sizeof rules[0], tensors, attributes)) {
        return ACLNN_ERR_PARAM_INVALID;
    }
    return status;
}
