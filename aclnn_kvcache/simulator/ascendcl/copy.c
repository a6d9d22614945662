/* SPDX-License-Identifier: Apache-2.0 */
#include "acl/acl_rt.h"
#include "api.h"
#include "core/context.h"
#include "transfer.h"

#define WIDEST_ASYNC 5000000
#define HIGHEST_ASYNC 5242880

static aclError check_kind_number(const char *function, aclrtMemcpyKind kind)
{
    if ((unsigned)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
        return sim_fail(ACL_ERROR_INVALID_PARAM, function, "kind is %d; expected 0 to 5", (int)kind);
    }
    return ACL_SUCCESS;
}

/* The checks of plain copies in CANN's order. */
static aclError check(const char *function, const void *dst, size_t dest_max, const void *src, size_t count,
    aclrtMemcpyKind kind)
{
    if (dst == NULL) {
        return sim_fail_null(function, "dst");
    }
    if (src == NULL) {
        return sim_fail_null(function, "src");
    }
    TRY(check_kind_number(function, kind));
    if (dest_max == 0 || count > dest_max) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "count is %zu; expected at most destMax, which is %zu",
            count, dest_max);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    ENTER(aclrtMemcpy(dst, destMax, src, count, kind));
    if (count == 0) {
        return ACL_SUCCESS;
    }
    TRY(check(__func__, dst, destMax, src, count, kind));
    if (dst == src) {
        return ACL_SUCCESS;
    }
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    transfer t = transfer_row(__func__, dst, src, count);
    TRY(transfer_locate(&t));
    transfer_report_kind(&t, kind);
    transfer_report_overlap(&t);
    return transfer_now(&t);
}

static aclError copy_async(const char *function, void *dst, size_t dest_max, const void *src, size_t count,
    aclrtMemcpyKind kind, aclrtStream stream)
{
    if (count == 0) {
        return ACL_SUCCESS;
    }
    TRY(check(function, dst, dest_max, src, count, kind));
    if (dst == src) {
        return ACL_SUCCESS;
    }
    transfer t = transfer_row(function, dst, src, count);
    return transfer_queue(&t, kind, stream);
}

SIM_EXPORT aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream)
{
    ENTER(aclrtMemcpyAsync(dst, destMax, src, count, kind, stream));
    return copy_async(__func__, dst, destMax, src, count, kind, stream);
}

SIM_EXPORT aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
    aclrtMemcpyKind kind, aclrtStream stream)
{
    ENTER(aclrtMemcpyAsyncWithCondition(dst, destMax, src, count, kind, stream));
    return copy_async(__func__, dst, destMax, src, count, kind, stream);
}

/* Bytes from the first row's start to the last row's end; 0 on overflow. */
static size_t span(size_t pitch, size_t width, size_t height)
{
    size_t bytes;
    if (__builtin_mul_overflow(pitch, height - 1, &bytes) || __builtin_add_overflow(bytes, width, &bytes)) {
        return 0;
    }
    return bytes;
}

static aclError make_2d(transfer *t, const char *function, void *dst, size_t dpitch, const void *src, size_t spitch,
    size_t width, size_t height, aclrtMemcpyKind kind)
{
    if (dst == NULL) {
        return sim_fail_null(function, "dst");
    }
    if (src == NULL) {
        return sim_fail_null(function, "src");
    }
    TRY(check_kind_number(function, kind));
    if (width > dpitch || width > spitch) {
        return sim_fail(ACL_ERROR_INVALID_PARAM, function,
            "width is %zu; expected at most dpitch (%zu) and spitch (%zu)", width, dpitch, spitch);
    }
    *t = transfer_row(function, dst, src, width);
    t->dst_pitch = dpitch;
    t->src_pitch = spitch;
    t->height = height;
    t->dst.bytes = span(dpitch, width, height);
    t->src.bytes = span(spitch, width, height);
    if (t->dst.bytes == 0 || t->src.bytes == 0) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "height is %zu, which goes beyond all addresses", height);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
    size_t height, aclrtMemcpyKind kind)
{
    ENTER(aclrtMemcpy2d(dst, dpitch, src, spitch, width, height, kind));
    if (width == 0 || height == 0) {
        return ACL_SUCCESS;
    }
    transfer t;
    TRY(make_2d(&t, __func__, dst, dpitch, src, spitch, width, height, kind));
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    TRY(transfer_locate(&t));
    int inside_device = t.dst.place == AREA_DEVICE && t.src.place == AREA_DEVICE;
    int kind_taken = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEFAULT;
    if (!kind_taken || inside_device || transfer_on_host(&t)) {
        return FAIL(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "kind is %d; expected a copy between host and device with kind 1, 2 or 4", (int)kind);
    }
    TRY(transfer_check_kind(&t, kind));
    return transfer_now(&t);
}

SIM_EXPORT aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
    size_t height, aclrtMemcpyKind kind, aclrtStream stream)
{
    ENTER(aclrtMemcpy2dAsync(dst, dpitch, src, spitch, width, height, kind, stream));
    if (width == 0 || height == 0) {
        return ACL_SUCCESS;
    }
    transfer t;
    TRY(make_2d(&t, __func__, dst, dpitch, src, spitch, width, height, kind));
    if (width > WIDEST_ASYNC || height > HIGHEST_ASYNC) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "width is %zu and height %zu; expected at most %d and %d", width,
            height, WIDEST_ASYNC, HIGHEST_ASYNC);
    }
    return transfer_queue(&t, kind, stream);
}
