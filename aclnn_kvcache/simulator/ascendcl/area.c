/* SPDX-License-Identifier: Apache-2.0 */
#include "area.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/checks.h"
#include "core/footprint.h"
#include "core/host_memory.h"
#include "core/memory.h"
#include "core/report.h"
#include "core/untouched.h"

#define PAGES 512

/* Memory that the runtime does not know may be no memory at all; a copy of that is an error and not a crash. */
static int is_mapped(const void *address, size_t bytes)
{
    unsigned char resident[PAGES];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)address / page;
    uintptr_t last;
    if (__builtin_add_overflow((uintptr_t)address, bytes - 1, &last)) {
        return 0;
    }
    last /= page;
    for (; first <= last; first += PAGES) {
        const size_t pages = last - first + 1 < PAGES ? last - first + 1 : PAGES;
        if (mincore((void *)(first * page), pages * page, resident) != 0) {
            return 0;
        }
    }
    return 1;
}

static aclError locate(const char *function, area *a)
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
        sim_host_report_freed(function, "use_after_free", a->name, a->address);
        if (a->bytes > 0 && !is_mapped(a->address, a->bytes)) {
            return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
                "%s is %p with %zu bytes to touch; that is neither device memory nor memory of this process", a->name,
                a->address, a->bytes);
        }
        return ACL_SUCCESS;
    }
    if (a->bytes > known) {
        area_allowed(function, a);
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
            "%s is %p with %zu bytes to touch; its allocation has %zu there", a->name, a->address, a->bytes, known);
    }
    return ACL_SUCCESS;
}

aclError area_locate(const char *function, area *a)
{
    const aclError status = locate(function, a);
    if (status != ACL_SUCCESS) {
        sim_report_untouched(function, a->name, a->address);
    }
    return status;
}

size_t area_allowed(const char *function, const area *a)
{
    if (a->place != AREA_DEVICE || !sim_checking(SIM_CHECK_MEM)) {
        return a->bytes;
    }
    return sim_memory_check(function, a->name, a->address, a->bytes, a->access);
}

sim_use area_use(const area *a)
{
    const uintptr_t start = (uintptr_t)a->address;
    if (a->place == AREA_PAGEABLE) {
        return (sim_use){.what = a->name};
    }
    return (sim_use){a->name, a->address, {start, start + a->bytes}, a->access == SIM_WRITE};
}

void area_note(const area *a, size_t offset, size_t bytes)
{
    if (a->place != AREA_PAGEABLE) {
        sim_footprint_note(a->name, (const char *)a->address + offset, bytes, a->access == SIM_WRITE ? SIM_WRITES : SIM_READS);
    }
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
