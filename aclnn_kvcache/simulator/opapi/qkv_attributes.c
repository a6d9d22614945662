/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments beside the tensors, and the tensor that they are held against. */
#include <string.h>

#include "core/handle.h"
#include "core/handle_report.h"
#include "core/message.h"
#include "nnopbase/holders.h"
#include "opapi/qkv_messages.h"
#include "opapi/qkv_phase1.h"
#include "opapi/qkv_rows.h"
#include "opdev/op_errno.h"

/* Like tensors, a list that is gone has no answer of CANN's. */
static aclnnStatus read_list(const char *function, const char *name, const void *handle, const int64_t **values,
                             uint64_t *length)
{
    const sim_holder *holder = handle == NULL ? NULL : sim_handle_get(SIM_INT_ARRAY, handle);

    if (holder == NULL && handle != NULL) {
        sim_report_handle(function, name, SIM_INT_ARRAY, handle);
        sim_message("EZ9999", "AclNN_Inner_Error", "%s is no int array", name);
        return ACLNN_ERR_INNER_NULLPTR;
    }
    *values = holder == NULL ? NULL : (const void *)holder->values;
    *length = holder == NULL ? 0 : holder->size;
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_read_lists(const char *function, const void *head_nums, const void *section,
                           qkv_attributes *attributes)
{
    const aclnnStatus status =
        read_list(function, "headNums", head_nums, &attributes->head_nums, &attributes->head_nums_length);

    return status != ACLNN_SUCCESS ? status
                                   : read_list(function, "mropeSectionOptional", section, &attributes->section,
                                               &attributes->section_length);
}

const char *qkv_quant_mode(const char *text)
{
    return text == NULL || text[0] == '\0' ? "PerTokenPerHead" : text;
}

aclnnStatus qkv_check_head_counts(qkv_attributes *attributes)
{
    if (attributes->head_nums_length != HEAD_KINDS) {
        sim_message_solution(BAD_LENGTH, "headNums has %llu entries but needs %d",
                             (unsigned long long)attributes->head_nums_length, HEAD_KINDS);
        return ACLNN_ERR_PARAM_INVALID;
    }
    memcpy(attributes->heads, attributes->head_nums, sizeof attributes->heads);
    for (int kind = 0; kind < HEAD_KINDS; kind++) {
        if (attributes->heads[kind] <= 0) {
            sim_message_solution(BAD_VALUE, "headNums has the count %lld at index %d; counts are positive",
                                 (long long)attributes->heads[kind], kind);
            return ACLNN_ERR_PARAM_INVALID;
        }
    }
    return ACLNN_SUCCESS;
}

bool qkv_read_layout(const char *text, qkv_layout by_default, qkv_layout *layout)
{
    const bool is_missing = text == NULL || text[0] == '\0';

    *layout = is_missing ? by_default : strcmp(text, "NTD") == 0 ? NTD : TND;
    return is_missing || *layout == NTD || strcmp(text, "TND") == 0;
}

aclnnStatus qkv_check_layouts(qkv_attributes *attributes)
{
    if (!qkv_read_layout(attributes->layout_text_in, TND, &attributes->layout_in)) {
        sim_message_solution(BAD_VALUE, "layout_qkv is \"%s\" but must be \"TND\" or \"NTD\"",
                             attributes->layout_text_in);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (!qkv_read_layout(attributes->layout_text_out, NTD, &attributes->layout_out)) {
        sim_message_solution(BAD_VALUE, "layout_q_out is \"%s\" but must be \"TND\" or \"NTD\"",
                             attributes->layout_text_out);
        return ACLNN_ERR_PARAM_INVALID;
    }
    if (attributes->layout_in == NTD && attributes->layout_out == TND) {
        sim_message_solution(BAD_VALUE, "layout_q_out is \"TND\", which does not go with an input in \"NTD\"");
        return ACLNN_ERR_PARAM_INVALID;
    }
    return ACLNN_SUCCESS;
}

aclnnStatus qkv_check_axes(const sim_tensor *qkv, const qkv_attributes *attributes)
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

bool qkv_section_fits(const int64_t *section)
{
    static const int64_t most = HEAD_SIZE / 2 / POSITION_AXES; /* turns of the second and the third axis */
    int64_t left = HEAD_SIZE / 2;

    for (int axis = 0; axis < POSITION_AXES; axis++) {
        if (section[axis] < 0 || section[axis] > left || (axis > 0 && section[axis] > most)) {
            return false;
        }
        left -= section[axis];
    }
    return true;
}
