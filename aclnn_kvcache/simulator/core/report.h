/* SPDX-License-Identifier: Apache-2.0 */
/* The one way in which a runtime call fails: a message that names the function, the thread's last error, the status. */
#ifndef ACLSIM_CORE_REPORT_H_
#define ACLSIM_CORE_REPORT_H_

#include "acl/acl_base_rt.h"
#include "core/export.h"

/* Returns the status; the message's code, title and solution follow from it. */
SIM_EXPORT aclError sim_fail(aclError status, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an environment variable that is wrong, whatever the status. */
SIM_EXPORT aclError sim_fail_variable(aclError status, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* 100000 for a pointer that must not be NULL. */
SIM_EXPORT aclError sim_fail_null(const char *function, const char *parameter);

/* The same with another code than the usual EH0008. */
SIM_EXPORT aclError sim_fail_null_as(const char *code, const char *function, const char *parameter);

/* For what the simulator cannot do faithfully: said on standard error too, since a caller may well expect success. */
SIM_EXPORT aclError sim_unsupported(aclError status, const char *function, const char *reason);

/* The status for a call made in a forked child. */
SIM_EXPORT aclError sim_fail_forked(const char *function);

/* The last error of this thread, and its reset. */
SIM_EXPORT aclError sim_last_error(void);
SIM_EXPORT void sim_last_error_clear(void);

#endif
