/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 3 to 6 of the decision table (phase1_revision_a.md, scatter): the operator's own checks, as tables in order. */
#include "core/message.h"
#include "opapi/op_dtype.h"
#include "opapi/op_tensor.h"
#include "opapi/scatter.h"
#include "opdev/op_errno.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Row 3: what has to be empty in every pair. */
static const struct {
    scatter_tensor source;
    scatter_tensor cache;
} moves[] = {
    {KEY, KEY_CACHE},
    {VALUE, VALUE_CACHE},
    {KEY_SCALE, KEY_SCALE_CACHE},
};

/* Row 4, with the names that CANN uses in it. */
static const struct {
    scatter_tensor tensor;
    const char *name;
    uint64_t rank;
    bool has_head_size; /* its last extent must not be 0 */
} ranks[] = {
    {KEY, "key", 3, true},
    {VALUE, "value", 3, true},
    {SLOT_MAPPING, "slotMapping", 1, false},
    {KEY_CACHE, "keyCache", 4, true},
    {VALUE_CACHE, "valueCache", 4, true},
    {KEY_SCALE, "keyScale", 2, false},
    {KEY_SCALE_CACHE, "keyScaleCache", 4, false},
};

/* Rows 5 and 6 name the parameters as the function does. */
const char *const scatter_names[SCATTER_TENSORS] = {
    "key", "value", "keyCacheRef", "valueCacheRef", "slotMapping", "keyScale", "keyScaleCacheRef",
};

/* Row 5. */
static const struct {
    scatter_tensor tensor;
    int accepted[2];
} dtypes[] = {
    {KEY, {ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN}},
    {VALUE, {ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN}},
    {KEY_CACHE, {ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN}},
    {VALUE_CACHE, {ACL_FLOAT8_E5M2, ACL_FLOAT8_E4M3FN}},
    {SLOT_MAPPING, {ACL_INT32, ACL_INT64}},
    {KEY_SCALE, {ACL_FLOAT, ACL_FLOAT}},
    {KEY_SCALE_CACHE, {ACL_FLOAT, ACL_FLOAT}},
};

/* Row 6. */
static const struct {
    scatter_tensor one;
    scatter_tensor other;
} equal_dtypes[] = {
    {KEY, KEY_CACHE},
    {VALUE, VALUE_CACHE},
    {KEY, VALUE},
    {KEY_SCALE, KEY_SCALE_CACHE},
};

bool scatter_is_empty_call(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    bool nothing_moves = true;

    for (size_t i = 0; i < COUNT(moves); i++) {
        nothing_moves = nothing_moves &&
                        (op_tensor_is_empty(tensors[moves[i].source]) || op_tensor_is_empty(tensors[moves[i].cache]));
    }
    return nothing_moves || op_tensor_is_empty(tensors[SLOT_MAPPING]);
}

#define PARAMETER_ERROR "EZ1001", "AclNN_Parameter_Error"

static aclnnStatus check_ranks(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    for (size_t i = 0; i < COUNT(ranks); i++) {
        const sim_tensor *tensor = tensors[ranks[i].tensor];
        if (tensor->rank != ranks[i].rank) {
            sim_message(PARAMETER_ERROR, "%s has %llu dimensions but needs %llu", ranks[i].name,
                        (unsigned long long)tensor->rank, (unsigned long long)ranks[i].rank);
            return ACLNN_ERR_PARAM_INVALID;
        }
        if (ranks[i].has_head_size && tensor->dims[tensor->rank - 1] == 0) {
            sim_message(PARAMETER_ERROR, "the last dimension of %s is 0", ranks[i].name);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus check_dtypes(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        const aclDataType dtype = tensors[dtypes[i].tensor]->dtype;
        const aclDataType first = (aclDataType)dtypes[i].accepted[0];
        const aclDataType second = (aclDataType)dtypes[i].accepted[1];
        if (dtype != first && dtype != second) {
            sim_message(PARAMETER_ERROR, "%s has data type %s but needs %s%s%s", scatter_names[dtypes[i].tensor],
                        op_dtype_name(dtype), op_dtype_name(first), first == second ? "" : " or ",
                        first == second ? "" : op_dtype_name(second));
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

static aclnnStatus check_equal_dtypes(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    for (size_t i = 0; i < COUNT(equal_dtypes); i++) {
        const aclDataType one = tensors[equal_dtypes[i].one]->dtype;
        const aclDataType other = tensors[equal_dtypes[i].other]->dtype;
        if (one != other) {
            sim_message(PARAMETER_ERROR, "%s has data type %s but %s has %s; they must be equal",
                        scatter_names[equal_dtypes[i].one], op_dtype_name(one), scatter_names[equal_dtypes[i].other],
                        op_dtype_name(other));
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus scatter_check_parameters(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    aclnnStatus (*const checks[])(const sim_tensor *const *) = {check_ranks, check_dtypes, check_equal_dtypes};
    aclnnStatus status = ACLNN_SUCCESS;

    for (size_t i = 0; i < COUNT(checks) && status == ACLNN_SUCCESS; i++) {
        status = checks[i](tensors);
    }
    return status;
}
