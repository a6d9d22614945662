/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer.h"

#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "core/checks.h"
#include "core/device.h"
#include "core/host_memory.h"
#include "core/message.h"
#include "core/schedule.h"
#include "core/shadow.h"
#include "core/stream.h"

/* Where each kind says the areas are; ACL_MEMCPY_DEFAULT says nothing. */
static const struct {
    int dst_on_device;
    int src_on_device;
} kinds[] = {
    [ACL_MEMCPY_HOST_TO_HOST] = {0, 0},
    [ACL_MEMCPY_HOST_TO_DEVICE] = {1, 0},
    [ACL_MEMCPY_DEVICE_TO_HOST] = {0, 1},
    [ACL_MEMCPY_DEVICE_TO_DEVICE] = {1, 1},
    [ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE] = {1, 0},
};

transfer transfer_row(const char *function, void *dst, const void *src, size_t count)
{
    return (transfer){
        .function = function,
        .dst = {.name = "dst", .access = SIM_WRITE, .address = dst, .bytes = count},
        .src = {.name = "src", .access = SIM_READ, .address = (void *)(uintptr_t)src, .bytes = count},
        .width = count,
        .height = 1,
    };
}

aclError transfer_locate(transfer *t)
{
    TRY(area_locate(t->function, &t->dst));
    TRY(area_locate(t->function, &t->src));
    if (t->dst.place == AREA_DEVICE && t->src.place == AREA_DEVICE &&
        !sim_device_reaches(t->dst.device, t->src.device) && !sim_device_reaches(t->src.device, t->dst.device)) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, t->function,
            "src is on device %d and dst on device %d; expected aclrtDeviceEnablePeerAccess between them first",
            t->src.device, t->dst.device);
    }
    return ACL_SUCCESS;
}

int transfer_on_host(const transfer *t)
{
    return t->dst.place != AREA_DEVICE && t->src.place != AREA_DEVICE;
}

static const char *side(int on_device)
{
    return on_device ? "device" : "host";
}

static int kind_fits(const transfer *t, aclrtMemcpyKind kind)
{
    return kind == ACL_MEMCPY_DEFAULT || (kinds[kind].dst_on_device == (t->dst.place == AREA_DEVICE) &&
                                             kinds[kind].src_on_device == (t->src.place == AREA_DEVICE));
}

void transfer_report_kind(const transfer *t, aclrtMemcpyKind kind)
{
    if (!kind_fits(t, kind)) {
        sim_report(SIM_CHECK_API, "copy_kind_mismatch", t->function,
            "kind is %d (%s to %s), but src is %s memory and dst %s memory; pass the kind of these, or other addresses",
            (int)kind,
            side(kinds[kind].src_on_device), side(kinds[kind].dst_on_device), side(t->src.place == AREA_DEVICE),
            side(t->dst.place == AREA_DEVICE));
    }
}

void transfer_report_overlap(const transfer *t)
{
    const uintptr_t dst = (uintptr_t)t->dst.address;
    const uintptr_t src = (uintptr_t)t->src.address;
    const int is_inside = t->dst.place == AREA_DEVICE && t->src.place == AREA_DEVICE && t->height == 1;
    const uintptr_t distance = dst > src ? dst - src : src - dst;
    if (is_inside && distance < t->width) {
        sim_report(SIM_CHECK_MEM, "overlapping_copy", t->function,
            "src, %p, and dst, %p, share %zu of the %zu bytes to copy; a device copies them in no order that is promised: "
            "copy by way of other memory, or in parts that do not overlap",
            t->src.address, t->dst.address, (size_t)(t->width - distance), t->width);
    }
}

aclError transfer_check_kind(const transfer *t, aclrtMemcpyKind kind)
{
    if (kind_fits(t, kind)) {
        return ACL_SUCCESS;
    }
    int dst = t->dst.place == AREA_DEVICE;
    int src = t->src.place == AREA_DEVICE;
    return sim_fail(ACL_ERROR_RT_PARAM_INVALID, t->function,
        "kind is %d (%s to %s); expected one for the addresses, which are %s to %s", (int)kind,
        side(kinds[kind].src_on_device), side(kinds[kind].dst_on_device), side(src), side(dst));
}

/* How much of a row lies within the bytes that may be touched. */
static size_t within(size_t start, size_t width, size_t allowed)
{
    size_t left = allowed > start ? allowed - start : 0;
    return width < left ? width : left;
}

/* What the check of initialisation knows of the memory that was moved. */
static void mark_moved(const transfer *t, size_t row, size_t width)
{
    char *dst = (char *)t->dst.address + row * t->dst_pitch;
    const char *src = (const char *)t->src.address + row * t->src_pitch;
    if (t->dst.place == AREA_DEVICE && t->src.place == AREA_DEVICE) {
        sim_shadow_copy(dst, src, width);
    } else if (t->dst.place == AREA_DEVICE) {
        sim_shadow_write(dst, width);
    }
}

/* Nothing but bytes that were never written is no result of anything; gaps among those that were are usual. */
static void report_unwritten(const transfer *t, size_t allowed)
{
    for (size_t row = 0; row < t->height; ++row) {
        size_t width = within(row * t->src_pitch, t->width, allowed);
        if (sim_shadow_unwritten((const char *)t->src.address + row * t->src_pitch, width) < width) {
            return;
        }
    }
    if (allowed > 0 && sim_shadow_first(t->src.address, t->function)) {
        char where[SIM_PLACE_BYTES];
        sim_memory_describe(t->src.address, t->src.address, where);
        sim_report(SIM_CHECK_INIT, "uninitialised_read", t->function,
            "nothing was ever written to the %zu bytes that are read at %p, which is %s; queue what writes them first",
            t->src.bytes, t->src.address, where);
    }
}

/* 0 when an area is gone. */
static int move(const transfer *t)
{
    sim_host_hold();
    char *dst = area_bytes(&t->dst);
    const char *src = area_bytes(&t->src);
    int there = dst != NULL && src != NULL;
    size_t to = area_allowed(t->function, &t->dst);
    size_t from = area_allowed(t->function, &t->src);
    int is_watched = there && sim_checking(SIM_CHECK_INIT);
    if (is_watched && t->src.place == AREA_DEVICE && t->dst.place != AREA_DEVICE) {
        report_unwritten(t, from);
    }
    for (size_t row = 0; there && row < t->height; ++row) {
        size_t width = within(row * t->dst_pitch, within(row * t->src_pitch, t->width, from), to);
        memmove(dst + row * t->dst_pitch, src + row * t->src_pitch, width);
        area_note(&t->src, row * t->src_pitch, width);
        area_note(&t->dst, row * t->dst_pitch, width);
        if (is_watched) {
            mark_moved(t, row, width);
        }
    }
    sim_host_unhold();
    return there;
}

aclError transfer_now(const transfer *t)
{
    sim_call *call = sim_order_host_begin(t->function);
    const int there = move(t);
    sim_order_host_end(call);
    if (!there) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, t->function, "memory was freed while it was copied");
    }
    sim_schedule_demand();
    return ACL_SUCCESS;
}

typedef struct {
    transfer what;
    void *staged; /* a copy of the source, or NULL */
} job;

static aclError run(void *arg)
{
    const job *j = arg;
    if (!move(&j->what)) {
        sim_message("EE1019", "Execution_Error", "%s: source %p or destination %p was freed before the copy ran",
            j->what.function, j->what.src.address, j->what.dst.address);
        return ACL_ERROR_RT_DRV_INTERNAL_ERROR;
    }
    return ACL_SUCCESS;
}

static void release(void *arg)
{
    job *j = arg;
    free(j->staged);
    free(j);
}

static aclError queue(const transfer *t, int stage, sim_stream *stream)
{
    job *j = calloc(1, sizeof *j);
    void *staged = stage ? malloc(t->src.bytes) : NULL;
    if (j == NULL || (stage && staged == NULL)) {
        free(j);
        free(staged);
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, t->function, "the host has no memory for a task");
    }
    j->what = *t;
    if (stage) {
        sim_call *call = sim_order_host_begin(t->function);
        memcpy(staged, t->src.address, t->src.bytes);
        area_note(&t->src, 0, t->src.bytes);
        sim_order_host_end(call);
        j->staged = staged;
        j->what.src.address = staged;
        j->what.src.place = AREA_PAGEABLE;
    }
    const sim_use uses[] = {area_use(&j->what.dst), area_use(&j->what.src)};
    return sim_stream_submit(stream, (sim_task){t->function, run, release, j, uses, 2}, 0);
}

/* Pageable memory could be gone when a task ran, so such a copy waits for its turn here. */
static aclError queue_or_wait(const transfer *t, aclrtMemcpyKind kind, sim_stream *stream)
{
    int stage = kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
    int pageable = t->dst.place == AREA_PAGEABLE || t->src.place == AREA_PAGEABLE;
    if (pageable && !stage) {
        TRY(sim_stream_synchronize(t->function, stream, -1));
        return transfer_now(t);
    }
    return queue(t, stage, stream);
}

aclError transfer_queue(const transfer *t, aclrtMemcpyKind kind, aclrtStream stream)
{
    sim_stream *target;
    transfer located = *t;
    TRY(sim_stream_acquire(t->function, stream, SIM_OWN_CONTEXT, &target));
    aclError status = sim_stream_check(t->function, target);
    if (status == ACL_SUCCESS) {
        status = transfer_locate(&located);
    }
    if (status == ACL_SUCCESS && (transfer_on_host(&located) || kind == ACL_MEMCPY_HOST_TO_HOST)) {
        status = sim_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, t->function,
            "src and dst are both host memory, or kind says so; expected device memory on one side");
    }
    if (status == ACL_SUCCESS) {
        status = transfer_check_kind(&located, kind);
    }
    if (status == ACL_SUCCESS) {
        transfer_report_overlap(&located);
        status = queue_or_wait(&located, kind, target);
    }
    sim_stream_release(target);
    return status;
}
