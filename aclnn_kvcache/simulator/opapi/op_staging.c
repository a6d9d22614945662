/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_staging.h"

#include "opapi/device_copy.h"
#include "opapi/op_tensor.h"

/* Copies come behind what the library itself asks for (observed.md), each rounded up. */
static const uint64_t copy_unit = 512;

uint64_t op_stage_reserve(const sim_tensor *tensor, uint64_t end, int64_t *staged_at)
{
    const uint64_t bytes = op_tensor_elements(tensor) * op_tensor_item_bytes(tensor);

    *staged_at = (int64_t)end;
    return end + (bytes + copy_unit - 1) / copy_unit * copy_unit;
}

bool op_stage_in(const op_launch *launch, size_t index, int64_t staged_at, op_operand_place *place)
{
    *place = op_operand_in_place(launch, index);
    if (staged_at == NOT_STAGED) {
        return true;
    }
    const op_operand_place original = *place;
    *place = op_operand_copy(launch, index, (uint64_t)(uintptr_t)launch->workspace + (uint64_t)staged_at);
    return device_view_to_dense(&original, place);
}
