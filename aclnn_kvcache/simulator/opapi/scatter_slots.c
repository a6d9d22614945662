/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/checks.h"
#include "opapi/device_copy.h"
#include "opapi/scatter.h"

/* Negative slots are left out by their own value; only then comes the kernel's index width, in which a slot beyond it
   aliases (scatter_pa_kv_cache_with_k_scale.md, 4). */
static int64_t effective_slot(int64_t slot, uint64_t limit, uint64_t mask)
{
    const uint64_t index = (uint64_t)slot & mask;

    return slot < 0 || index >= limit ? SLOT_SKIPPED : (int64_t)index;
}

static bool read_slot(const op_operand_place *slots, uint64_t index, int64_t *slot)
{
    const uint64_t address = slots->start + index * slots->item_bytes;
    int32_t narrow;

    if (slots->item_bytes == sizeof *slot) {
        return device_read(slots, address, slot, sizeof *slot);
    }
    if (!device_read(slots, address, &narrow, sizeof narrow)) {
        return false;
    }
    *slot = narrow;
    return true;
}

/* The tensor's bounds cannot tell: the slot is a good one, but another. */
static void report_alias(uint64_t token, int64_t slot, int64_t effective)
{
    if (effective != SLOT_SKIPPED && effective != slot) {
        sim_report(SIM_CHECK_MEM, "wrapped_slot", SCATTER_NAME,
                   "token %llu has slot %lld, of which the kernel's 32 bits leave slot %lld: that one is overwritten; "
                   "pass -1 for a token to skip",
                   (unsigned long long)token, (long long)slot, (long long)effective);
    }
}

int64_t *scatter_read_slots(const op_operand_place *slots, uint64_t tokens, uint64_t limit, uint64_t mask,
                            aclError *fault)
{
    int64_t *effective = calloc(tokens, sizeof *effective);

    if (effective == NULL) {
        *fault = ACL_ERROR_RT_MEMORY_ALLOCATION;
        return NULL;
    }
    for (uint64_t t = 0; t < tokens; t++) {
        int64_t slot;
        if (!read_slot(slots, t * slots->strides[0] & mask, &slot)) {
            free(effective);
            *fault = ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
            return NULL;
        }
        effective[t] = effective_slot(slot, limit, mask);
        report_alias(t, slot, effective[t]);
    }
    return effective;
}
