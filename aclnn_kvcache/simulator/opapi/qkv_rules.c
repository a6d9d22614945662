/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/qkv_rules.h"

#include "core/message.h"
#include "opapi/qkv_phase1.h"
#include "opapi/qkv_rows.h"

/* The extent, 0 where the tensor has no such axis. */
static int64_t extent(const sim_tensor *tensor, uint64_t axis)
{
    return tensor == NULL || tensor->rank <= axis ? 0 : tensor->dims[axis];
}

static int64_t wanted_extent(qkv_letter letter, const sim_tensor *const tensors[QKV_TENSORS],
                             const qkv_attributes *attributes)
{
    const bool is_token_major = attributes->layout_out == TND;
    const int64_t tokens = qkv_tokens(tensors[QKV], attributes);

    switch (letter) {
    case T:
        return tokens;
    case NQ:
        return attributes->heads[Q_HEADS];
    case NK:
        return attributes->heads[K_HEADS];
    case NV:
        return attributes->heads[V_HEADS];
    case D:
        return HEAD_SIZE;
    case ONE:
    case POSITIVE:
        return 1;
    case TWO_OR_MORE:
        return 2;
    case AXES:
        return POSITION_AXES;
    case GROUPS:
        return HEAD_SIZE / MX_BLOCK;
    case BATCHES:
        return (int64_t)((uint64_t)extent(tensors[QUERY_START_LOC], 0) - 1);
    case BLOCKS:
        return extent(tensors[K_CACHE], 0);
    case BLOCK_SIZE:
        return extent(tensors[K_CACHE], 2);
    case OUT_OUTER:
        return is_token_major ? tokens : attributes->heads[Q_HEADS];
    case OUT_INNER:
        return is_token_major ? attributes->heads[Q_HEADS] : tokens;
    default:
        return 0;
    }
}

static bool fits(qkv_letter letter, int64_t found, int64_t wanted)
{
    return letter == ANY || (letter == TWO_OR_MORE || letter == POSITIVE ? found >= wanted : found == wanted);
}

static bool check_shape(const qkv_rule *rule, const qkv_shape *shape, const sim_tensor *const tensors[QKV_TENSORS],
                        const qkv_attributes *attributes)
{
    const sim_tensor *tensor = tensors[shape->tensor];

    if (tensor->rank != shape->rank) {
        sim_message_solution(rule->code, rule->title, rule->solution, "%s: %llu dimensions instead of %llu", rule->rule,
                             (unsigned long long)tensor->rank, (unsigned long long)shape->rank);
        return false;
    }
    for (uint64_t axis = 0; axis < shape->rank; axis++) {
        const int64_t wanted = wanted_extent(shape->axes[axis], tensors, attributes);
        if (!fits(shape->axes[axis], tensor->dims[axis], wanted)) {
            sim_message_solution(rule->code, rule->title, rule->solution, "%s: dimension %llu is %lld instead of %lld",
                                 rule->rule, (unsigned long long)axis, (long long)tensor->dims[axis],
                                 (long long)wanted);
            return false;
        }
    }
    return true;
}

bool qkv_check_rules(const qkv_rule *rules, size_t count, const sim_tensor *const tensors[QKV_TENSORS],
                     const qkv_attributes *attributes)
{
    for (size_t i = 0; i < count; i++) {
        const qkv_rule *rule = &rules[i];
        for (size_t j = 0; j < 2 && rule->shapes[j].rank != 0 && (rule->scenes & IN(attributes->scene)) != 0; j++) {
            if (!check_shape(rule, &rule->shapes[j], tensors, attributes)) {
                return false;
            }
        }
    }
    return true;
}
