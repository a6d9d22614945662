/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/op_run_checks.h"

#include "core/checks.h"
#include "core/context.h"
#include "core/device.h"
#include "core/memory.h"

/* Of a tensor's storage, in bytes (acl_abi.md, aclCreateTensor). */
#define ALIGNMENT 32

typedef unsigned long long ull;

/* Reports memory of a device that the current one does not reach. */
static void check_device(const char *function, const char *what, const void *address)
{
    int32_t current;
    int32_t device;

    if (sim_memory_is_device(address, &device) && sim_current_device(&current) == ACL_SUCCESS &&
        !sim_device_reaches(current, device)) {
        sim_report(SIM_CHECK_API, "memory_of_another_device", function,
                   "%s, %p, is memory of device %d, and the launch is on device %d, which does not reach it: allocate it "
                   "there, or call aclrtDeviceEnablePeerAccess first",
                   what, address, device, current);
    }
}

static void check_place(const char *function, const void *workspace, uint64_t given)
{
    void *start;
    size_t bytes;

    if (sim_memory_find(workspace, &start, &bytes)) {
        const uint64_t there = bytes - (uint64_t)((const char *)workspace - (const char *)start);
        if (there < given) {
            sim_report(SIM_CHECK_API, "workspace_outside_allocation", function,
                       "the workspace, %p, is said to have %llu bytes; its allocation has %llu there, and a device "
                       "writes behind it: allocate as many as phase 1 asked for",
                       workspace, (ull)given, (ull)there);
        }
        check_device(function, "the workspace", workspace);
    } else if (sim_memory_resolve(workspace, given) == NULL) {
        sim_report(SIM_CHECK_API, "workspace_not_device_memory", function,
                   "the workspace, %p, is no live device memory; a device faults on it: pass memory of aclrtMalloc",
                   workspace);
    }
}

void op_check_workspace(const char *function, const void *workspace, uint64_t given, uint64_t wanted)
{
    if (!sim_checking(SIM_CHECK_API)) {
        return;
    }
    if (given < wanted) {
        sim_report(SIM_CHECK_API, "workspace_too_small", function,
                   "the workspace has %llu bytes, phase 1 asked for %llu; CANN does not compare, and a device writes "
                   "behind it: pass what phase 1 asked for",
                   (ull)given, (ull)wanted);
    }
    if (workspace != NULL && given != 0) {
        check_place(function, workspace, given);
    }
}

/* Reports a storage that begins where CANN leaves the behaviour undefined. */
static void check_alignment(const char *function, const char *tensor, const void *base)
{
    const uintptr_t over = (uintptr_t)base % ALIGNMENT;

    if (over != 0) {
        sim_report(SIM_CHECK_API, "misaligned", function,
                   "the data of tensor %s begins at %p, %u bytes behind a multiple of %d; what a device does with it is "
                   "undefined: pass the aligned start of the memory, and say by the tensor's offset where it begins",
                   tensor, base, (unsigned)over, ALIGNMENT);
    }
}

void op_check_operands(const char *function, const op_launch *launch)
{
    const op_plan *plan = launch->plan;

    if (!sim_checking(SIM_CHECK_API)) {
        return;
    }
    for (size_t i = 0; i < plan->tensor_count; i++) {
        check_device(function, plan->kernel->tensor_names[i], launch->bases[i]);
        check_alignment(function, plan->kernel->tensor_names[i], launch->bases[i]);
    }
}
