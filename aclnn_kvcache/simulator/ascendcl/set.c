/* SPDX-License-Identifier: Apache-2.0 */
/* Filling memory: device memory, or host memory of aclrtMallocHost. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl_rt.h"
#include "api.h"
#include "area.h"
#include "core/checks.h"
#include "core/context.h"
#include "core/host_memory.h"
#include "core/message.h"
#include "core/shadow.h"
#include "core/stream.h"

typedef struct {
    const char *function;
    area target;
    uint32_t value;
    size_t unit; /* 1 or 4 bytes of the value, again and again */
} fill;

static aclError locate(fill *f)
{
    TRY(area_locate(f->function, &f->target));
    if (f->target.place == AREA_PAGEABLE) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, f->function,
            "%s is %p; expected device memory or memory of aclrtMallocHost", f->target.name, f->target.address);
    }
    return ACL_SUCCESS;
}

/* 0 when the target is gone. */
static int write_value(const fill *f)
{
    sim_host_hold();
    char *bytes = area_bytes(&f->target);
    size_t count = area_allowed(f->function, &f->target);
    if (bytes != NULL && f->unit == 1) {
        memset(bytes, (int)(f->value & 0xFF), count);
    }
    for (size_t i = 0; bytes != NULL && f->unit != 1 && i < count; ++i) {
        bytes[i] = ((const char *)&f->value)[i % f->unit];
    }
    if (bytes != NULL && f->target.place == AREA_DEVICE && sim_checking(SIM_CHECK_INIT)) {
        sim_shadow_write(f->target.address, count);
    }
    sim_host_unhold();
    if (bytes != NULL) {
        area_note(&f->target, 0, count);
    }
    return bytes != NULL;
}

static aclError fill_now(fill *f)
{
    int32_t device;
    TRY(sim_context_current_device(f->function, &device));
    TRY(locate(f));
    sim_call *call = sim_order_host_begin(f->function);
    const int there = write_value(f);
    sim_order_host_end(call);
    if (!there) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, f->function, "memory was freed while it was set");
    }
    return ACL_SUCCESS;
}

static aclError check_count(const char *function, size_t count, size_t most)
{
    if (count > most) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "count is %zu; expected at most maxCount, which is %zu",
            count, most);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    ENTER(aclrtMemset(devPtr, maxCount, value, count));
    if (count == 0) {
        return ACL_SUCCESS;
    }
    REQUIRE(devPtr);
    TRY(check_count(__func__, count, maxCount));
    fill f = {__func__, {.name = "devPtr", .access = SIM_WRITE, .address = devPtr, .bytes = count}, (uint32_t)value, 1};
    return fill_now(&f);
}

SIM_EXPORT aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
    ENTER(aclrtMemsetD32(ptr, memSize, value, N));
    if (N == 0) {
        return ACL_SUCCESS;
    }
    REQUIRE(ptr);
    if ((uintptr_t)ptr % sizeof value != 0) {
        return FAIL(ACL_ERROR_RT_ADDR_UNALIGNED, "ptr is %p; expected a multiple of 4", ptr);
    }
    if (N > memSize / sizeof value) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "N is %zu words; expected at most memSize, which is %zu bytes", N,
            memSize);
    }
    fill f = {__func__, {.name = "ptr", .access = SIM_WRITE, .address = ptr, .bytes = N * sizeof value}, value,
        sizeof value};
    return fill_now(&f);
}

static aclError run(void *arg)
{
    const fill *f = arg;
    if (!write_value(f)) {
        sim_message("EE1019", "Execution_Error", "%s: memory at %p was freed before the task ran", f->function,
            f->target.address);
        return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
    return ACL_SUCCESS;
}

static aclError queue(const fill *f, sim_stream *stream)
{
    fill *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, f->function, "the host has no memory for a task");
    }
    *kept = *f;
    const sim_use use = area_use(&f->target);
    return sim_stream_submit(stream, (sim_task){f->function, run, free, kept, &use, 1}, 0);
}

SIM_EXPORT aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    ENTER(aclrtMemsetAsync(devPtr, maxCount, value, count, stream));
    if (count == 0) {
        return ACL_SUCCESS;
    }
    REQUIRE(devPtr);
    TRY(check_count(__func__, count, maxCount));
    fill f = {__func__, {.name = "devPtr", .access = SIM_WRITE, .address = devPtr, .bytes = count}, (uint32_t)value, 1};
    sim_stream *target;
    TRY(sim_stream_acquire(__func__, stream, SIM_OWN_CONTEXT, &target));
    aclError status = sim_stream_check(__func__, target);
    if (status == ACL_SUCCESS) {
        status = locate(&f);
    }
    if (status == ACL_SUCCESS) {
        status = queue(&f, target);
    }
    sim_stream_release(target);
    return status;
}
