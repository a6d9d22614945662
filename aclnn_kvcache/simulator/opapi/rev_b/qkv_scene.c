/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 3 to 8 of the decision table (phase1_revision_b.md): which scene it is, and what goes with it. */
#include <string.h>

#include "core/message.h"
#include "opapi/op_dtype.h"
#include "opapi/qkv_messages.h"
#include "opapi/rev_b/checks.h"
#include "opdev/op_errno.h"

static const char *const modes[] = {[ROPE] = "PerTokenPerHead", [MROPE] = "NoQuant"};
static const int k_dtypes[] = {[ROPE] = ACL_FLOAT8_E4M3FN, [MROPE] = ACL_INT8};

/* Rows 3 to 5. */
static aclnnStatus check_presence(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    static const qkv_tensor for_rope[] = {QUERY_START_LOC, SEQ_LENS, Q_SCALE};
    const bool has_position = tensors[MROPE_POSITION] != NULL;

    if (has_position != (attributes->section_length != 0)) {
        sim_message_solution(BAD_VALUE, "of mropePositionOptional and mropeSectionOptional only one is given");
        return ACLNN_ERR_PARAM_INVALID;
    }
    attributes->scene = has_position ? MROPE : ROPE;
    if (has_position && (tensors[QUERY_START_LOC] != NULL || tensors[SEQ_LENS] != NULL)) {
        sim_message_solution(BAD_VALUE, "queryStartLocOptional and seqLensOptional are not for calls with positions");
        return ACLNN_ERR_PARAM_INVALID;
    }
    for (size_t i = 0; i < sizeof for_rope / sizeof for_rope[0] && !has_position; i++) {
        if (tensors[for_rope[i]] == NULL) {
            return qkv_null_pointer(qkv_names[for_rope[i]]);
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus check_scene(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    const aclnnStatus status = check_presence(tensors, attributes);

    if (status != ACLNN_SUCCESS) {
        return status;
    }
    const char *mode = qkv_quant_mode(attributes->q_mode);
    if (strcmp(mode, modes[attributes->scene]) != 0) {
        sim_message_solution(BAD_VALUE, "qQuantMode is \"%s\" but must be \"%s\" here", mode, modes[attributes->scene]);
        return ACLNN_ERR_PARAM_INVALID;
    }
    const aclDataType needed = (aclDataType)k_dtypes[attributes->scene];
    if (tensors[K_CACHE]->dtype != needed) {
        sim_message_solution(BAD_DTYPE, "kCacheRef has data type %s but needs %s",
                             op_dtype_name(tensors[K_CACHE]->dtype), op_dtype_name(needed));
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (attributes->scene == MROPE && tensors[Q_SCALE] != NULL) {
        sim_message_solution(BAD_VALUE, "qScaleOptional is not for calls with positions");
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}
