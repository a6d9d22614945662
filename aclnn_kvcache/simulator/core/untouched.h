/* SPDX-License-Identifier: Apache-2.0 */
/* What failed calls left in their out-parameters, so that a later use of it tells that nobody looked at the status. Each
   thread knows its own. */
#ifndef ACLSIM_CORE_UNTOUCHED_H_
#define ACLSIM_CORE_UNTOUCHED_H_

#include "core/export.h"

/* A call begins that is to give something by this out-parameter, a pointer to a pointer; and it gave it. */
SIM_EXPORT void sim_untouched_begin(const char *function, const void *out);
SIM_EXPORT void sim_untouched_end(void);

/* A function got something that is not what it should be: reports it and returns 1 where a call that failed left it.
   NULL tells nothing by itself; it counts where the call was the first phase of the function. */
SIM_EXPORT int sim_report_untouched(const char *function, const char *parameter, const void *value);

#endif
