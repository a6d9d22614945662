/* SPDX-License-Identifier: Apache-2.0 */
/* What the API check says of a handle that is not what a function takes. */
#ifndef ACLSIM_CORE_HANDLE_REPORT_H_
#define ACLSIM_CORE_HANDLE_REPORT_H_

#include "core/handle.h"

/* The function got this as a parameter that is to be a live handle of the kind, and it is none. */
SIM_EXPORT void sim_report_handle(const char *function, const char *parameter, sim_kind wanted, const void *handle);

#endif
