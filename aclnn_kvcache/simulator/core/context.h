/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: one primary context per device, counted, and explicit ones; a thread has one current context. */
#ifndef ACLSIM_CORE_CONTEXT_H_
#define ACLSIM_CORE_CONTEXT_H_

#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/export.h"

/* The device of the calling thread's current context; ACL_ERROR_RT_CONTEXT_NULL when it has none. */
SIM_EXPORT int sim_current_device(int32_t *device);

/* What follows is for the runtime's own functions. `function` is the name that messages carry. */

#define SIM_SYSTEM_OPTIONS 3

typedef struct sim_context sim_context;

/* The thread's current context in use by the caller, who releases it; NULL when there is none. */
SIM_EXPORT sim_context *sim_context_current(void);
SIM_EXPORT void sim_context_release(sim_context *context);
/* The failure, for who needs one, or only asks whether there is one. */
SIM_EXPORT aclError sim_context_missing(const char *function);
SIM_EXPORT aclError sim_context_none(const char *function);
/* The same, and nothing ends the context until it is left: for creating what belongs to it. */
sim_context *sim_context_enter(void);
void sim_context_leave(sim_context *context);
/* The device of the current context, with the failure reported. */
SIM_EXPORT aclError sim_context_current_device(const char *function, int32_t *device);

SIM_EXPORT int32_t sim_context_device(const sim_context *context);
SIM_EXPORT void *sim_context_handle(const sim_context *context);
SIM_EXPORT aclrtStream sim_context_default_stream(const sim_context *context);

SIM_EXPORT aclError sim_context_create(const char *function, int32_t device, aclrtContext *handle);
SIM_EXPORT aclError sim_context_destroy(const char *function, aclrtContext handle);
SIM_EXPORT aclError sim_context_set_current(const char *function, aclrtContext handle);

SIM_EXPORT aclError sim_primary_retain(const char *function, int32_t device);
/* Ends one use of the primary context. The last one ends all contexts of the device after their work; force makes this
   the last, drops their work and frees the device's memory. */
SIM_EXPORT aclError sim_primary_release(const char *function, int32_t device, int force);
SIM_EXPORT int sim_primary_active(int32_t device);

/* System options; ACL_ERROR_RT_SYSPARAMOPT_NOT_SET when it was never set. */
SIM_EXPORT void sim_context_set_option(sim_context *context, aclSysParamOpt option, int64_t value);
SIM_EXPORT int sim_context_get_option(sim_context *context, aclSysParamOpt option, int64_t *value);

#endif
