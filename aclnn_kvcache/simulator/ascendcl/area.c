/* SPDX-License-Identifier: Apache-2.0 */
#include "area.h"

#include "core/host_memory.h"
#include "core/memory.h"
#include "core/report.h"

aclError area_locate(const char *function, area *a)
{
    size_t known = 0;
    sim_host_kind kind;
    if (sim_memory_is_device(a->address, &a->device)) {
        a->place = AREA_DEVICE;
        void *start;
        if (sim_memory_find(a->address, &start, &known)) {
            known -= (size_t)((char *)a->address - (char *)start);
        }
    } else if (sim_host_find(a->address, &known, &kind)) {
        a->place = AREA_PINNED;
    } else {
        a->place = AREA_PAGEABLE;
        return ACL_SUCCESS;
    }
    if (a->bytes > known) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
            "%s is %p with %zu bytes to touch; its allocation has %zu there", a->name, a->address, a->bytes, known);
    }
    return ACL_SUCCESS;
}

void *area_bytes(const area *a)
{
    size_t known;
    sim_host_kind kind;
    switch (a->place) {
    case AREA_DEVICE:
        return sim_memory_resolve(a->address, a->bytes);
    case AREA_PINNED:
        return sim_host_find(a->address, &known, &kind) && a->bytes <= known ? a->address : NULL;
    default:
        return a->address;
    }
}
