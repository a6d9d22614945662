/* SPDX-License-Identifier: Apache-2.0 */
/* Views in place or dense copies, and the workspace that the choice costs. */
#include "opapi/op_tensor.h"
#include "opapi/scatter.h"

/* What the library itself asks for (observed.md). */
static const uint64_t library_bytes = 16777728;

/* The last stride of these decides, an axis of extent 1 included (habits.md, fact 13); keyScale may have any. */
static const scatter_tensor dense_last[] = {KEY, VALUE, KEY_CACHE, VALUE_CACHE, KEY_SCALE_CACHE};

bool scatter_takes_view_path(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    bool is_strided = !op_tensor_is_contiguous(tensors[KEY_SCALE]);

    for (size_t i = 0; i < sizeof dense_last / sizeof dense_last[0]; i++) {
        const sim_tensor *tensor = tensors[dense_last[i]];
        if (tensor->strides[tensor->rank - 1] != 1) {
            return false;
        }
        is_strided = is_strided || !op_tensor_is_contiguous(tensor);
    }
    return is_strided;
}

uint64_t scatter_stage(const sim_tensor *const tensors[SCATTER_TENSORS], bool view_path, scatter_details *details)
{
    uint64_t end = library_bytes;

    for (int i = 0; i < SCATTER_TENSORS; i++) {
        const bool is_staged = !op_tensor_is_contiguous(tensors[i]) && (!view_path || i == SLOT_MAPPING);
        details->staged_at[i] = NOT_STAGED;
        if (is_staged) {
            end = op_stage_reserve(tensors[i], end, &details->staged_at[i]);
        }
    }
    return end;
}
