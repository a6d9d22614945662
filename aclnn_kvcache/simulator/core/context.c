/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/checks.h"
#include "core/device.h"
#include "core/event.h"
#include "core/handle.h"
#include "core/handle_report.h"
#include "core/leaks.h"
#include "core/memory.h"
#include "core/order.h"
#include "core/process.h"
#include "core/report.h"
#include "core/stream.h"
#include "core/untouched.h"

struct sim_context {
    atomic_int references;
    void *handle;
    int32_t device;
    int is_primary;
    aclrtStream default_stream;
    atomic_int closing; /* changed with the mutex, so that nothing is created after the context's own was closed */
    pthread_mutex_t mutex;
    struct {
        int is_set;
        int64_t value;
    } options[SIM_SYSTEM_OPTIONS];
};

static struct {
    int references;
    sim_context *context;
} primaries[SIM_MOST_DEVICES];

/* Orders the creation of contexts with the reset of their device. */
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local void *current;

static void retain(void *object)
{
    sim_context *context = object;
    atomic_fetch_add(&context->references, 1);
}

void sim_context_release(sim_context *context)
{
    if (context != NULL && atomic_fetch_sub(&context->references, 1) == 1) {
        pthread_mutex_destroy(&context->mutex);
        free(context);
    }
}

static sim_context *acquire(const void *handle)
{
    sim_context *context = sim_handle_acquire(SIM_CONTEXT, handle, retain);
    if (context != NULL && atomic_load(&context->closing)) {
        sim_context_release(context);
        return NULL;
    }
    return context;
}

sim_context *sim_context_current(void)
{
    return acquire(current);
}

aclError sim_context_missing(const char *function)
{
    sim_report(SIM_CHECK_API, "no_device", function,
        "this thread has no current device; each thread that makes calls sets its own, by aclrtSetDevice or "
        "aclrtSetCurrentContext");
    return sim_context_none(function);
}

aclError sim_context_none(const char *function)
{
    return sim_fail(ACL_ERROR_RT_CONTEXT_NULL, function, "this thread has no current context, or it was destroyed");
}

int sim_current_device(int32_t *device)
{
    if (sim_process_forked()) {
        return ACL_ERROR_RT_INTERNAL_ERROR;
    }
    sim_context *context = sim_context_current();
    if (context == NULL) {
        return ACL_ERROR_RT_CONTEXT_NULL;
    }
    *device = context->device;
    sim_context_release(context);
    return ACL_SUCCESS;
}

aclError sim_context_current_device(const char *function, int32_t *device)
{
    int code = sim_current_device(device);
    if (code == ACL_ERROR_RT_INTERNAL_ERROR) {
        return sim_fail_forked(function);
    }
    return code == ACL_SUCCESS ? ACL_SUCCESS : sim_context_missing(function);
}

sim_context *sim_context_enter(void)
{
    sim_context *context = sim_context_current();
    if (context == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&context->mutex);
    if (atomic_load(&context->closing)) {
        sim_context_leave(context);
        return NULL;
    }
    return context;
}

void sim_context_leave(sim_context *context)
{
    pthread_mutex_unlock(&context->mutex);
    sim_context_release(context);
}

int32_t sim_context_device(const sim_context *context)
{
    return context->device;
}

void *sim_context_handle(const sim_context *context)
{
    return context->handle;
}

aclrtStream sim_context_default_stream(const sim_context *context)
{
    return context->default_stream;
}

/* With the registry's lock. */
static aclError new_context(const char *function, int32_t device, int is_primary, sim_context **created)
{
    sim_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "the host has no memory for a context");
    }
    atomic_init(&context->references, 1);
    atomic_init(&context->closing, 0);
    pthread_mutex_init(&context->mutex, NULL);
    context->device = device;
    context->is_primary = is_primary;
    context->handle = sim_handle_create(SIM_CONTEXT, context, is_primary ? NULL : function);
    aclError code = context->handle == NULL
        ? sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function, "no handle is left for a context")
        : sim_stream_create(function, context->handle, device, 1, 0, 0, &context->default_stream);
    if (code != ACL_SUCCESS) {
        sim_handle_remove(SIM_CONTEXT, context->handle, function);
        sim_context_release(context);
        return code;
    }
    *created = context;
    return ACL_SUCCESS;
}

/* Whether this call is the one that ends the context. */
static int begin_closing(sim_context *context)
{
    pthread_mutex_lock(&context->mutex);
    int first = !atomic_exchange(&context->closing, 1);
    pthread_mutex_unlock(&context->mutex);
    return first;
}

/* Events go first: a stream may wait for one that nobody can record any more. */
static void close_context(const char *function, sim_context *context, int drop_work)
{
    sim_events_close(function, context->handle);
    sim_streams_close(function, context->handle, drop_work);
    sim_handle_remove(SIM_CONTEXT, context->handle, function);
    sim_context_release(context);
}

aclError sim_context_create(const char *function, int32_t device, aclrtContext *handle)
{
    sim_context *context;
    sim_untouched_begin(function, handle);
    pthread_mutex_lock(&registry);
    aclError code = new_context(function, device, 0, &context);
    if (code == ACL_SUCCESS) {
        sim_untouched_end();
        *handle = current = context->handle;
    }
    pthread_mutex_unlock(&registry);
    return code;
}

aclError sim_context_destroy(const char *function, aclrtContext handle)
{
    sim_context *context = sim_handle_acquire(SIM_CONTEXT, handle, retain);
    if (context == NULL) {
        sim_report_handle(function, "context", SIM_CONTEXT, handle);
    }
    if (context == NULL || context->is_primary) {
        sim_context_release(context);
        return sim_fail(ACL_ERROR_RT_CONTEXT_NULL, function,
            "context is %p; expected a live context made by aclrtCreateContext", handle);
    }
    aclError code = ACL_SUCCESS;
    if (begin_closing(context)) {
        close_context(function, context, 0);
    } else {
        code = sim_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, function, "context %p is being destroyed", handle);
    }
    sim_context_release(context);
    return code;
}

aclError sim_context_set_current(const char *function, aclrtContext handle)
{
    sim_context *context = acquire(handle);
    if (context == NULL) {
        sim_report_handle(function, "context", SIM_CONTEXT, handle);
        return sim_fail(ACL_ERROR_RT_CONTEXT_NULL, function, "context is %p; expected a live context", handle);
    }
    sim_context_release(context);
    current = handle;
    return ACL_SUCCESS;
}

aclError sim_primary_retain(const char *function, int32_t device)
{
    aclError code = ACL_SUCCESS;
    pthread_mutex_lock(&registry);
    if (primaries[device].references == 0) {
        code = new_context(function, device, 1, &primaries[device].context);
    }
    if (code == ACL_SUCCESS) {
        ++primaries[device].references;
        current = primaries[device].context->handle;
    }
    pthread_mutex_unlock(&registry);
    return code;
}

/* The device's contexts, each of which this call is to end. With the registry's lock. */
static size_t take_contexts(int32_t device, sim_entry **contexts)
{
    size_t count = sim_handle_collect(SIM_CONTEXT, retain, contexts);
    size_t taken = 0;
    for (size_t i = 0; i < count; ++i) {
        sim_context *context = (*contexts)[i].object;
        if (context->device == device && begin_closing(context)) {
            (*contexts)[taken++] = (*contexts)[i];
        } else {
            sim_context_release(context);
        }
    }
    return taken;
}

aclError sim_primary_release(const char *function, int32_t device, int force)
{
    sim_entry *contexts = NULL;
    size_t count = 0;
    pthread_mutex_lock(&registry);
    int *references = &primaries[device].references;
    int was_set = *references > 0;
    if (was_set) {
        *references = force ? 0 : *references - 1;
        if (*references == 0) {
            count = take_contexts(device, &contexts);
        }
    }
    pthread_mutex_unlock(&registry);
    sim_leaks_report_reset(function, contexts, count, device, was_set && force);
    for (size_t i = 0; i < count; ++i) {
        close_context(function, contexts[i].object, force);
        sim_context_release(contexts[i].object);
    }
    free(contexts);
    if (was_set && force) {
        sim_memory_free_all(function, device);
        sim_order_restart();
    }
    return was_set ? ACL_SUCCESS
                   : sim_fail(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, function,
                         "deviceId is %d; expected a device with an aclrtSetDevice that was not yet reset", device);
}

int sim_primary_active(int32_t device)
{
    pthread_mutex_lock(&registry);
    int active = primaries[device].references > 0;
    pthread_mutex_unlock(&registry);
    return active;
}

void sim_context_set_option(sim_context *context, aclSysParamOpt option, int64_t value)
{
    pthread_mutex_lock(&context->mutex);
    context->options[option].is_set = 1;
    context->options[option].value = value;
    pthread_mutex_unlock(&context->mutex);
}

int sim_context_get_option(sim_context *context, aclSysParamOpt option, int64_t *value)
{
    pthread_mutex_lock(&context->mutex);
    int is_set = context->options[option].is_set;
    if (is_set) {
        *value = context->options[option].value;
    }
    pthread_mutex_unlock(&context->mutex);
    return is_set ? ACL_SUCCESS : ACL_ERROR_RT_SYSPARAMOPT_NOT_SET;
}
