/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"

#include <pthread.h>

#include "api.h"
#include "core/device.h"

SIM_EXPORT aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    ENTER(aclrtCreateContext(context, deviceId));
    REQUIRE(context);
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    return sim_context_create(__func__, deviceId, context);
}

SIM_EXPORT aclError aclrtDestroyContext(aclrtContext context)
{
    ENTER(aclrtDestroyContext(context));
    REQUIRE(context);
    return sim_context_destroy(__func__, context);
}

SIM_EXPORT aclError aclrtSetCurrentContext(aclrtContext context)
{
    ENTER(aclrtSetCurrentContext(context));
    if (context == NULL) {
        return sim_fail_null_as("EH0002", __func__, "context");
    }
    return sim_context_set_current(__func__, context);
}

SIM_EXPORT aclError aclrtGetCurrentContext(aclrtContext *context)
{
    ENTER(aclrtGetCurrentContext(context));
    REQUIRE(context);
    sim_context *current = sim_context_current();
    if (current == NULL) {
        return sim_context_none(__func__);
    }
    *context = sim_context_handle(current);
    sim_context_release(current);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    ENTER(aclrtGetPrimaryCtxState(deviceId, flags, active));
    REQUIRE(active);
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    if (flags != NULL) { /* reserved: callers may leave it out */
        *flags = 0;
    }
    *active = sim_primary_active(deviceId);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream)
{
    ENTER(aclrtCtxGetCurrentDefaultStream(stream));
    REQUIRE(stream);
    sim_context *current = sim_context_current();
    if (current == NULL) {
        return sim_context_missing(__func__);
    }
    *stream = sim_context_default_stream(current);
    sim_context_release(current);
    return ACL_SUCCESS;
}

static aclError check_option(const char *function, aclSysParamOpt opt)
{
    if ((unsigned)opt >= SIM_SYSTEM_OPTIONS) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "opt is %d; expected 0 to %d", (int)opt,
            SIM_SYSTEM_OPTIONS - 1);
    }
    return ACL_SUCCESS;
}

static aclError option_not_set(const char *function, aclSysParamOpt opt)
{
    return sim_fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, function, "option %d was never set", (int)opt);
}

SIM_EXPORT aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    ENTER(aclrtCtxSetSysParamOpt(opt, value));
    TRY(check_option(__func__, opt));
    sim_context *current = sim_context_current();
    if (current == NULL) {
        return sim_context_missing(__func__);
    }
    sim_context_set_option(current, opt, value);
    sim_context_release(current);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    ENTER(aclrtCtxGetSysParamOpt(opt, value));
    REQUIRE(value);
    TRY(check_option(__func__, opt));
    sim_context *current = sim_context_current();
    if (current == NULL) {
        return sim_context_missing(__func__);
    }
    int status = sim_context_get_option(current, opt, value);
    sim_context_release(current);
    return status == ACL_SUCCESS ? ACL_SUCCESS : option_not_set(__func__, opt);
}

static struct {
    pthread_mutex_t mutex;
    int is_set[SIM_SYSTEM_OPTIONS];
    int64_t values[SIM_SYSTEM_OPTIONS];
} process_options = {.mutex = PTHREAD_MUTEX_INITIALIZER};

SIM_EXPORT aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    ENTER(aclrtSetSysParamOpt(opt, value));
    TRY(check_option(__func__, opt));
    pthread_mutex_lock(&process_options.mutex);
    process_options.is_set[opt] = 1;
    process_options.values[opt] = value;
    pthread_mutex_unlock(&process_options.mutex);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    ENTER(aclrtGetSysParamOpt(opt, value));
    REQUIRE(value);
    TRY(check_option(__func__, opt));
    pthread_mutex_lock(&process_options.mutex);
    int is_set = process_options.is_set[opt];
    if (is_set) {
        *value = process_options.values[opt];
    }
    pthread_mutex_unlock(&process_options.mutex);
    return is_set ? ACL_SUCCESS : option_not_set(__func__, opt);
}
