/* SPDX-License-Identifier: Apache-2.0 */
#include "core/report.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/message.h"
#include "core/wording.h"

typedef struct {
    aclError status;
    const char *code;
    const char *title;
    const char *solution; /* may be NULL */
} family;

/* Statuses that are not listed take the last row. */
static const family families[] = {
    {ACL_ERROR_INVALID_PARAM, "EH0007", "Invalid_Argument", NULL},
    {ACL_ERROR_REPEAT_INITIALIZE, "EE1018", "Invalid_Argument_API_Call_Sequence",
        "ACL is usable; leave its finalisation to whoever initialised it first."},
    {ACL_ERROR_INVALID_FILE, "EH0003", "File_Operation_Error_Invalid_Path", NULL},
    {ACL_ERROR_PARSE_FILE, "EE1014", "File_Operation_Error_Parse", NULL},
    {ACL_ERROR_REPEAT_FINALIZE, "EE1018", "Invalid_Argument_API_Call_Sequence", NULL},
    {ACL_ERROR_API_NOT_SUPPORT, "EH0011", "Not_Supported", NULL},
    {ACL_ERROR_RT_PARAM_INVALID, "EE1003", "Invalid_Argument", NULL},
    {ACL_ERROR_RT_INVALID_DEVICEID, "EE1003", "Invalid_Argument", NULL},
    {ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "Invalid_Argument",
        "Call aclrtSetDevice or aclrtSetCurrentContext on this thread first."},
    {ACL_ERROR_RT_STREAM_CONTEXT, "EE1010", "Execution_Error_Invalid_Context",
        "Make the context in which the stream was created current on this thread."},
    {ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1018", "Invalid_Argument_API_Call_Sequence",
        "Synchronise the stream on which the event was recorded first."},
    {ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "EE1018", "Invalid_Argument_API_Call_Sequence", NULL},
    {ACL_ERROR_RT_ADDR_UNALIGNED, "EE1011", "Invalid_Argument", NULL},
    {ACL_ERROR_RT_INVALID_MEMORY_TYPE, "EE1003", "Invalid_Argument", NULL},
    {ACL_ERROR_RT_INVALID_HANDLE, "EE1017", "Invalid_Argument", NULL},
    {ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "EE1018", "Invalid_Argument_API_Call_Sequence", NULL},
    {ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006", "Not_Supported", NULL},
    {ACL_ERROR_RT_MEMORY_ALLOCATION, "EE1021", "Resource_Error", NULL},
    {ACL_ERROR_RT_NO_EVENT_RESOURCE, "EE1021", "Resource_Error", "Destroy events that are no longer used."},
    {ACL_ERROR_RT_NO_STREAM_RESOURCE, "EE1021", "Resource_Error", "Destroy streams that are no longer used."},
    {ACL_ERROR_RT_INTERNAL_ERROR, "EE1018", "Invalid_Argument_API_Call_Sequence", NULL},
    {ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "EE1018", "Invalid_Argument_API_Call_Sequence", NULL},
    {ACL_ERROR_RT_AICORE_EXCEPTION, "EZ2001", "Execution_Error", NULL},
    {ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, "EZ2001", "Execution_Error", NULL},
    {ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "EE1002", "Execution_Error_Stream_Synchronize_Timeout", NULL},
    {ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "EE1002", "Execution_Error_Stream_Synchronize_Timeout", NULL},
    {ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "EE1011", "Invalid_Argument", NULL},
    {ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "EE1011", "Invalid_Argument", NULL},
    {ACL_SUCCESS, "EE1019", "Execution_Error", NULL},
};

static const family wrong_variable = {.code = "EE2002", .title = "Config_Error_Invalid_Environment_Variable"};

static _Thread_local aclError last_error;

static const family *family_of(aclError status)
{
    const family *row = families;
    while (row->status != status && row->status != ACL_SUCCESS) {
        ++row;
    }
    return row;
}

static void fail(const family *row, aclError status, const char *function, const char *format, va_list values)
{
    char text[512];
    vsnprintf(text, sizeof text, format, values);
    sim_wording_polish(text);
    if (row->solution == NULL) {
        sim_message(row->code, row->title, "%s failed with %d: %s.", function, status, text);
    } else {
        sim_message_solution(row->code, row->title, row->solution, "%s failed with %d: %s.", function, status, text);
    }
    last_error = status;
}

aclError sim_fail(aclError status, const char *function, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fail(family_of(status), status, function, format, values);
    va_end(values);
    return status;
}

aclError sim_fail_variable(aclError status, const char *function, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fail(&wrong_variable, status, function, format, values);
    va_end(values);
    return status;
}

aclError sim_fail_null(const char *function, const char *parameter)
{
    return sim_fail_null_as("EH0008", function, parameter);
}

aclError sim_fail_null_as(const char *code, const char *function, const char *parameter)
{
    sim_message(code, "Invalid_Argument_Null_Pointer", "%s failed with %d: %s is NULL; expected a pointer.",
        function, ACL_ERROR_INVALID_PARAM, parameter);
    last_error = ACL_ERROR_INVALID_PARAM;
    return ACL_ERROR_INVALID_PARAM;
}

aclError sim_unsupported(aclError status, const char *function, const char *reason)
{
    fprintf(stderr, "aclsim: %s is not simulated: %s\n", function, reason);
    return sim_fail(status, function, "the simulator does not support it: %s", reason);
}

aclError sim_fail_forked(const char *function)
{
    return sim_fail(ACL_ERROR_RT_INTERNAL_ERROR, function,
        "this process was forked from one that uses the runtime; start processes that use it by spawning them");
}

aclError sim_last_error(void)
{
    return last_error;
}

void sim_last_error_clear(void)
{
    last_error = ACL_SUCCESS;
}
