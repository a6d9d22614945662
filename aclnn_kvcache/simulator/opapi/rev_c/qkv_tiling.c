/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 19 to 38 of the decision table (phase1_revision_c.md): which kernel it is, data types, shapes against each
   other. */
#include "core/message.h"
#include "opapi/op_dtype.h"
#include "opapi/qkv_messages.h"
#include "opapi/qkv_rules.h"
#include "opapi/rev_c/checks.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define IN_MROPES (IN(MROPE) | IN(MX))

enum { MOST_TOKENS = 262144 };

/* Row 19: a kernel for each scene, told by these data types; the others are those of all kernels. */
static const struct {
    int k_cache;
    int q_out;
    int k_scale_cache;
} kernels[SCENES] = {
    [ROPE] = {ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E4M3FN, ACL_FLOAT},
    [MROPE] = {ACL_INT8, ACL_BF16, ACL_FLOAT},
    [MX] = {ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E8M0},
};

static const struct {
    qkv_tensor tensor;
    int dtype;
} in_all_kernels[] = {
    {QKV, ACL_BF16},    {Q_GAMMA, ACL_FLOAT},      {K_GAMMA, ACL_FLOAT},
    {COS_SIN, ACL_FLOAT}, {SLOT_MAPPING, ACL_INT32}, {V_CACHE, ACL_FLOAT8_E4M3FN},
};

static bool has_kernel(const sim_tensor *const tensors[QKV_TENSORS])
{
    bool is_known = false;

    for (int i = 0; i < SCENES; i++) {
        is_known = is_known || ((int)tensors[K_CACHE]->dtype == kernels[i].k_cache &&
                                (int)tensors[Q_OUT]->dtype == kernels[i].q_out &&
                                (int)tensors[K_SCALE_CACHE]->dtype == kernels[i].k_scale_cache);
    }
    for (size_t i = 0; i < COUNT(in_all_kernels); i++) {
        is_known = is_known && (int)tensors[in_all_kernels[i].tensor]->dtype == in_all_kernels[i].dtype;
    }
    if (!is_known) {
        sim_message("EZ1009", "Execution_Error", "the operator package has no kernel for these data types");
    }
    return is_known;
}

/* Row 20. */
static bool have_axes(const sim_tensor *const tensors[QKV_TENSORS])
{
    static const struct {
        qkv_tensor tensor;
        const char *name;
    } caches[] = {{K_CACHE, "kCache"}, {V_CACHE, "vCache"}, {K_SCALE_CACHE, "kScaleCache"}};

    for (size_t i = 0; i < COUNT(caches); i++) {
        if (tensors[caches[i].tensor]->rank == 0) {
            sim_message_solution(BAD_STRIDE, "%s has no dimensions, so no strides", caches[i].name);
            return false;
        }
    }
    return true;
}

/* Rows 21 to 29. */
static const qkv_rule sizes[] = {
    {BAD_AXES, "cosSin has one row a position", IN_ALL, {{COS_SIN, 2, {ANY, ANY}}}},
    {BAD_AXES, "queryStartLoc is a list", IN(ROPE), {{QUERY_START_LOC, 1, {ANY}}}},
    {BAD_SHAPE, "queryStartLoc has two entries or more", IN(ROPE), {{QUERY_START_LOC, 1, {TWO_OR_MORE}}}},
    {BAD_AXES, "seqLens is a list", IN(ROPE), {{SEQ_LENS, 1, {ANY}}}},
    {BAD_SHAPES, "seqLens has one entry less than queryStartLoc", IN(ROPE), {{SEQ_LENS, 1, {BATCHES}}}},
    {BAD_AXES, "mropePosition has one row a token", IN_MROPES, {{MROPE_POSITION, 2, {ANY, ANY}}}},
    {BAD_AXES, "kCache has blocks, heads, rows and channels", IN_ALL, {{K_CACHE, 4, {ANY, ANY, ANY, ANY}}}},
    {BAD_SHAPE, "cosSin has rows", IN_ALL, {{COS_SIN, 2, {POSITIVE, ANY}}}},
    {BAD_SHAPE, "kCache has blocks, and rows in them", IN_ALL, {{K_CACHE, 4, {POSITIVE, ANY, POSITIVE, ANY}}}},
};

/* Rows 30 to 32. */
static bool check_numbers(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    if (attributes->scene != ROPE && attributes->section_length != POSITION_AXES) {
        sim_message_solution(BAD_LENGTH, "mrope_section has %llu entries but needs %d",
                             (unsigned long long)attributes->section_length, POSITION_AXES);
        return false;
    }
    if (attributes->scene != ROPE && !qkv_section_fits(attributes->section)) {
        sim_message_solution(BAD_VALUE, "mrope_section is not three counts that fit 64 lanes, the second and third 21 "
                             "at the most");
        return false;
    }
    if (qkv_tokens(tensors[QKV], attributes) > MOST_TOKENS) {
        sim_message_solution(BAD_BOUND, "totalTokens is %lld but can be %d at the most",
                             (long long)qkv_tokens(tensors[QKV], attributes), MOST_TOKENS);
        return false;
    }
    return true;
}

/* Row 33. */
static bool check_dtypes(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    const struct {
        qkv_tensor tensor;
        const char *name;
        int dtype;
    } needed[] = {
        {K_CACHE, "kCache", kernels[attributes->scene].k_cache},
        {K_SCALE_CACHE, "kScaleCache", kernels[attributes->scene].k_scale_cache},
        {V_SCALE, "vScale", ACL_FLOAT},
        {ROTATION, "rotation", ACL_BF16},
        {MROPE_POSITION, "mropePosition", ACL_INT32},
        {QUERY_START_LOC, "queryStartLoc", ACL_INT32},
        {SEQ_LENS, "seqLens", ACL_INT32},
    };

    for (size_t i = 0; i < COUNT(needed); i++) {
        const sim_tensor *tensor = tensors[needed[i].tensor];
        const aclDataType dtype = (aclDataType)needed[i].dtype;
        if (tensor != NULL && tensor->dtype != dtype) {
            sim_message_solution(BAD_SCENE_DTYPE, "%s has data type %s but needs %s", needed[i].name,
                                 op_dtype_name(tensor->dtype), op_dtype_name(dtype));
            return false;
        }
    }
    return true;
}

/* Rows 34 to 38. */
static const qkv_rule rules[] = {
    {BAD_RANK, "qGamma is a list", IN_ALL, {{Q_GAMMA, 1, {ANY}}}},
    {BAD_RANK, "kGamma is a list", IN_ALL, {{K_GAMMA, 1, {ANY}}}},
    {BAD_RANK, "slotMapping is a list", IN_ALL, {{SLOT_MAPPING, 1, {ANY}}}},
    {BAD_RANK, "rotation is a square", IN(ROPE) | IN(MROPE), {{ROTATION, 2, {ANY, ANY}}}},
    {BAD_RANK, "vScale is a list", IN(ROPE), {{V_SCALE, 1, {ANY}}}},
    {BAD_RANK, "vScale has one row a head", IN_MROPES, {{V_SCALE, 2, {ANY, ANY}}}},
    {BAD_SHAPES, "qGamma and kGamma have one entry a channel", IN_ALL, {{Q_GAMMA, 1, {D}}, {K_GAMMA, 1, {D}}}},
    {BAD_SHAPE, "cosSin has one column a channel", IN_ALL, {{COS_SIN, 2, {ANY, D}}}},
    {BAD_SHAPE, "slotMapping has one entry a token", IN_ALL, {{SLOT_MAPPING, 1, {T}}}},
    {BAD_SHAPE, "mropePosition has three entries a token", IN_MROPES, {{MROPE_POSITION, 2, {T, AXES}}}},
    {BAD_SHAPE, "rotation is a square of channels", IN(ROPE) | IN(MROPE), {{ROTATION, 2, {D, D}}}},
    {BAD_SHAPE, "vScale has one entry a head", IN(ROPE), {{V_SCALE, 1, {NV}}}},
    {BAD_SHAPE, "vScale has one entry a head and channel", IN_MROPES, {{V_SCALE, 2, {NV, D}}}},
    {BAD_RANK, "vCache has blocks, heads, rows and channels", IN_ALL, {{V_CACHE, 4, {ANY, ANY, ANY, ANY}}}},
    {BAD_RANK, "kScaleCache has blocks, heads, rows and scales", IN_ALL, {{K_SCALE_CACHE, 4, {ANY, ANY, ANY, ANY}}}},
    {BAD_EXTENT, "kCache has rows of all heads and channels", IN_ALL, {{K_CACHE, 4, {ANY, NK, ANY, D}}}},
    {BAD_EXTENT, "vCache has the rows of K", IN_ALL, {{V_CACHE, 4, {BLOCKS, NK, BLOCK_SIZE, D}}}},
    {BAD_EXTENT, "kScaleCache has one value a row of K", IN(ROPE) | IN(MROPE),
     {{K_SCALE_CACHE, 4, {BLOCKS, NK, BLOCK_SIZE, ONE}}}},
    {BAD_EXTENT, "kScaleCache has four exponents a row of K", IN(MX),
     {{K_SCALE_CACHE, 4, {BLOCKS, NK, BLOCK_SIZE, GROUPS}}}},
};

bool check_tiling(const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    return has_kernel(tensors) && have_axes(tensors) &&
           qkv_check_rules(sizes, COUNT(sizes), tensors, attributes) && check_numbers(tensors, attributes) &&
           check_dtypes(tensors, attributes) && qkv_check_rules(rules, COUNT(rules), tensors, attributes);
}
