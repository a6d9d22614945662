/* SPDX-License-Identifier: Apache-2.0 */
/* What failed calls left in their out-parameters, so that a later use of it tells that nobody looked at the status. Each
   thread knows its own. */
#ifndef ACLSIM_CORE_UNTOUCHED_H_
#define ACLSIM_CORE_UNTOUCHED_H_

#include "core/export.h"

/* The outcome of a call that gives something by this out-parameter, which may be NULL; returns the status. */
SIM_EXPORT int sim_given(const char *function, int status, const void *out);

/* Something that is not what it should be was given to a function: reports it and returns 1 where it is the untouched
   out-parameter of a call that failed. NULL is one of that function only; NULL for the function means no NULL is. */
SIM_EXPORT int sim_report_untouched(const char *function, const char *parameter, const void *value, const char *maker);

#endif
