/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 19 to 29 of the decision table (phase1_revision_b.md): shapes against each other. */
#include "core/message.h"
#include "opapi/qkv_messages.h"
#include "opapi/qkv_rules.h"
#include "opapi/rev_b/checks.h"
#include "opdev/op_errno.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Row 22; the section's own rule comes next. */
static const qkv_rule position[] = {
    {BAD_SHAPE, "mropePositionOptional has three entries a token", IN(MROPE), {{MROPE_POSITION, 2, {T, AXES}}}},
};

/* Rows 24 to 29. */
static const qkv_rule rules[] = {
    {BAD_SHAPES, "qGamma and kGamma have one entry a channel", IN_ALL, {{Q_GAMMA, 1, {D}}, {K_GAMMA, 1, {D}}}},
    {BAD_SHAPE, "cosSin has one row a position and one column a channel", IN_ALL, {{COS_SIN, 2, {ANY, D}}}},
    {BAD_SHAPE, "slotMapping has one entry a token", IN_ALL, {{SLOT_MAPPING, 1, {T}}}},
    {BAD_SHAPE, "queryStartLoc has two entries or more", IN(ROPE), {{QUERY_START_LOC, 1, {TWO_OR_MORE}}}},
    {BAD_SHAPE, "seqLens has one entry a batch", IN(ROPE), {{SEQ_LENS, 1, {BATCHES}}}},
    {BAD_SHAPE, "rotationOptional is a square of channels", IN_ALL, {{ROTATION, 2, {D, D}}}},
    {BAD_SHAPE, "vScaleOptional has one entry a V head", IN(ROPE), {{V_SCALE, 1, {NV}}}},
    {BAD_SHAPE, "vScaleOptional has one entry a V head and channel", IN(MROPE), {{V_SCALE, 2, {NV, D}}}},
    {BAD_SHAPE, "kCacheRef has blocks of K heads, rows and channels", IN_ALL, {{K_CACHE, 4, {ANY, NK, ANY, D}}}},
    {BAD_SHAPE, "vCacheRef has blocks of V heads, rows and channels", IN_ALL, {{V_CACHE, 4, {ANY, NV, ANY, D}}}},
    {BAD_SHAPE, "kScaleCacheRef has blocks of K heads, rows and one value", IN_ALL,
     {{K_SCALE_CACHE, 4, {ANY, NK, ANY, ONE}}}},
    {BAD_SHAPES, "kCacheRef and kScaleCacheRef have the same blocks", IN_ALL,
     {{K_SCALE_CACHE, 4, {BLOCKS, ANY, BLOCK_SIZE, ANY}}}},
    {BAD_SHAPES, "vCacheRef and kCacheRef have the same blocks", IN_ALL,
     {{V_CACHE, 4, {BLOCKS, ANY, BLOCK_SIZE, ANY}}}},
    {BAD_SHAPE, "qOut has one row a token and head, in the order of the layout", IN_ALL,
     {{Q_OUT, 3, {OUT_OUTER, OUT_INNER, D}}}},
    {BAD_SHAPE, "qScale has one entry a token and head, in the order of the layout", IN(ROPE),
     {{Q_SCALE, 2, {OUT_OUTER, OUT_INNER}}}},
};

/* Row 23. */
static aclnnStatus check_section(const qkv_attributes *attributes)
{
    if (attributes->scene == MROPE &&
        (attributes->section_length != POSITION_AXES || !qkv_section_fits(attributes->section))) {
        sim_message_solution(BAD_VALUE, "mropeSectionOptional is not three counts that fit 64 lanes, the second and "
                             "third 21 at the most");
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus check_shapes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    aclnnStatus status = qkv_check_axes(tensors[QKV], attributes);

    if (status != ACLNN_SUCCESS) {
        return status;
    }
    if (!qkv_check_rules(position, COUNT(position), tensors, attributes)) {
        return ACLNN_ERR_PARAM_INVALID;
    }
    if ((status = check_section(attributes)) != ACLNN_SUCCESS) {
        return status;
    }
    return qkv_check_rules(rules, COUNT(rules), tensors, attributes) ? ACLNN_SUCCESS : ACLNN_ERR_PARAM_INVALID;
}
