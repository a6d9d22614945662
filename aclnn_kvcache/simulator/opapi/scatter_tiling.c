/* SPDX-License-Identifier: Apache-2.0 */
/* Rows 8 to 13 of the decision table (phase1_revision_a.md, scatter): shapes against each other. A failure happens one
   layer further in than the operator's own checks, so it carries a trace and another status. */
#include "core/message.h"
#include "opapi/op_checks.h"
#include "opapi/scatter.h"
#include "opdev/op_errno.h"

/* The letters of the shapes. */
typedef enum { T, N, DK, DV, B, S, ONE, LETTERS, ANY = LETTERS } letter;

static const char *const letter_names[LETTERS] = {"T", "N", "Dk", "Dv", "B", "S", "1"};

/* Which axis of which tensor a letter is. */
static const struct {
    scatter_tensor tensor;
    uint64_t axis;
} letter_sources[ONE] = {
    [T] = {KEY, 0}, [N] = {KEY, 1}, [DK] = {KEY, 2}, [DV] = {VALUE, 2}, [B] = {KEY_CACHE, 0}, [S] = {KEY_CACHE, 2},
};

/* In order, with the names that the tiling uses. */
static const struct {
    scatter_tensor tensor;
    const char *name;
    const char *code;
    const char *title;
    letter shape[4];
} shapes[] = {
    {VALUE, "value", "EZ0009", "Invalid_Argument_Tensor_Shape", {ANY, N, ANY}},
    {KEY_CACHE, "key_cache", "EZ0009", "Invalid_Argument_Tensor_Shape", {ANY, N, ANY, DK}},
    {VALUE_CACHE, "value_cache", "EZ0009", "Invalid_Argument_Tensor_Shape", {ANY, N, ANY, DV}},
    {SLOT_MAPPING, "slot_mapping", "EZ0015", "Invalid_Argument_Tensor_Shape_Size", {T}},
    {KEY_SCALE, "key_scale", "EZ0010", "Invalid_Argument_Tensor_Shape", {T, N}},
    {KEY_SCALE_CACHE, "key_scale_cache", "EZ0010", "Invalid_Argument_Tensor_Shape", {B, N, S, ONE}},
};

static int64_t extent_of(letter wanted, const sim_tensor *const tensors[SCATTER_TENSORS])
{
    return wanted == ONE ? 1 : tensors[letter_sources[wanted].tensor]->dims[letter_sources[wanted].axis];
}

aclnnStatus scatter_check_tiling(const sim_tensor *const tensors[SCATTER_TENSORS])
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const sim_tensor *tensor = tensors[shapes[i].tensor];
        for (uint64_t axis = 0; axis < tensor->rank; axis++) {
            const letter wanted = shapes[i].shape[axis];
            if (wanted == ANY || tensor->dims[axis] == extent_of(wanted, tensors)) {
                continue;
            }
            sim_message_solution(shapes[i].code, shapes[i].title, "Give tensors whose shapes agree.",
                                 "dimension %llu of %s is %lld but needs to be %s, here %lld", (unsigned long long)axis,
                                 shapes[i].name, (long long)tensor->dims[axis], letter_names[wanted],
                                 (long long)extent_of(wanted, tensors));
            return op_tiling_failed(SCATTER_NAME);
        }
    }
    return ACLNN_SUCCESS;
}
