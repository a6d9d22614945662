/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 9 to 18 of the decision table (phase1_revision_c.md): attributes, the scene, and the shape of qkv. */
#include <string.h>

#include "core/message.h"
#include "opapi/qkv_messages.h"
#include "opapi/qkv_rows.h"
#include "opapi/rev_c/checks.h"

enum { MOST_Q_HEADS = 64, Q_HEADS_PER_K_HEAD = 8 };

/* Rows 9 and 10. */
static bool check_heads(qkv_attributes *attributes)
{
    if (attributes->head_nums_length != HEAD_KINDS) {
        sim_message_solution(BAD_LENGTH, "head_nums has %llu entries but needs %d",
                             (unsigned long long)attributes->head_nums_length, HEAD_KINDS);
        return false;
    }
    memcpy(attributes->heads, attributes->head_nums, sizeof attributes->heads);
    const int64_t q = attributes->heads[Q_HEADS];
    const int64_t k = attributes->heads[K_HEADS];
    if (q <= 0 || q > MOST_Q_HEADS || q % Q_HEADS_PER_K_HEAD != 0 || q / Q_HEADS_PER_K_HEAD != k ||
        attributes->heads[V_HEADS] != k) {
        sim_message_solution(BAD_VALUE, "head_nums is %lld, %lld, %lld; the first is %d at the most, and %d times each "
                             "of the others", (long long)q, (long long)k, (long long)attributes->heads[V_HEADS],
                             MOST_Q_HEADS, Q_HEADS_PER_K_HEAD);
        return false;
    }
    return true;
}

/* Rows 11 to 13. */
static bool check_layouts(qkv_attributes *attributes)
{
    if (!qkv_read_layout(attributes->layout_text_in, TND, &attributes->layout_in)) {
        sim_message_solution(BAD_BOUND, "layout_qkv is \"%s\" but must be \"TND\" or \"NTD\"",
                             attributes->layout_text_in);
        return false;
    }
    if (!qkv_read_layout(attributes->layout_text_out, NTD, &attributes->layout_out)) {
        sim_message_solution(BAD_BOUND, "layout_q_out is \"%s\" but must be \"TND\" or \"NTD\"",
                             attributes->layout_text_out);
        return false;
    }
    if (attributes->layout_in == NTD && attributes->layout_out == TND) {
        sim_message_solution(BAD_VALUE, "layout_q_out is \"TND\", which does not go with an input in \"NTD\"");
        return false;
    }
    return true;
}

/* What tells the scenes apart; in those with positions the layouts are token-major. */
static const struct {
    bool has_position;
    bool has_batches;
    bool has_rotation;
    const char *q_mode;
    const char *k_mode;
    bool has_q_scale;
} scenes[SCENES] = {
    [ROPE] = {false, true, true, "PerTokenPerHead", "PerTokenPerHead", true},
    [MROPE] = {true, false, true, "NoQuant", "PerTokenPerHead", false},
    [MX] = {true, false, false, "Mx", "Mx", true},
};

static bool is_scene(qkv_scene scene, const sim_tensor *const tensors[QKV_TENSORS], const qkv_attributes *attributes)
{
    const bool is_token_major = attributes->layout_in == TND && attributes->layout_out == TND;

    return scenes[scene].has_position == (tensors[MROPE_POSITION] != NULL) &&
           scenes[scene].has_batches == (tensors[QUERY_START_LOC] != NULL) &&
           scenes[scene].has_batches == (tensors[SEQ_LENS] != NULL) &&
           scenes[scene].has_rotation == (tensors[ROTATION] != NULL) &&
           scenes[scene].has_q_scale == (tensors[Q_SCALE] != NULL) &&
           strcmp(attributes->q_mode, scenes[scene].q_mode) == 0 &&
           strcmp(attributes->k_mode, scenes[scene].k_mode) == 0 && (!scenes[scene].has_position || is_token_major);
}

/* Rows 14 and 15. */
static bool find_scene(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    if ((tensors[MROPE_POSITION] != NULL) != (attributes->section_length != 0)) {
        sim_message_solution(BAD_VALUE, "of mrope_position and mrope_section only one is given");
        return false;
    }
    for (int scene = ROPE; scene < SCENES; scene++) {
        if (is_scene((qkv_scene)scene, tensors, attributes)) {
            attributes->scene = (qkv_scene)scene;
            return true;
        }
    }
    sim_message_solution(BAD_VALUE, "no scene has these inputs and layouts with q_quant_mode \"%s\" and k_quant_mode "
                         "\"%s\"", attributes->q_mode, attributes->k_mode);
    return false;
}

/* Rows 16 to 18. */
static bool check_qkv(const sim_tensor *qkv, const qkv_attributes *attributes)
{
    const int64_t *heads = attributes->heads;
    const int64_t sum = heads[Q_HEADS] + heads[K_HEADS] + heads[V_HEADS];

    if (qkv->rank != 3) {
        sim_message_solution(BAD_RANK, "qkv has %llu dimensions but needs 3", (unsigned long long)qkv->rank);
        return false;
    }
    if (qkv_tokens(qkv, attributes) <= 0 || qkv->dims[2] != HEAD_SIZE) {
        sim_message_solution(BAD_SHAPE, "qkv has %lld tokens of %lld channels but needs one or more of %d",
                             (long long)qkv_tokens(qkv, attributes), (long long)qkv->dims[2], HEAD_SIZE);
        return false;
    }
    const int64_t head_axis = qkv->dims[attributes->layout_in == TND ? 1 : 0];
    if (head_axis != sum) {
        sim_message_solution(BAD_VALUES, "qkv has %lld heads but head_nums adds up to %lld", (long long)head_axis,
                             (long long)sum);
        return false;
    }
    return true;
}

bool infer(const sim_tensor *const tensors[QKV_TENSORS], qkv_attributes *attributes)
{
    return check_heads(attributes) && check_layouts(attributes) && find_scene(tensors, attributes) &&
           check_qkv(tensors[QKV], attributes);
}
