/* SPDX-License-Identifier: Apache-2.0 */
/* A child made by fork has no worker threads and perhaps locks that nobody will ever release: it must not wait. */
#ifndef ACLSIM_CORE_PROCESS_H_
#define ACLSIM_CORE_PROCESS_H_

#include "core/export.h"

/* Says that this process holds state of the simulator, so that a child made from now on is refused. */
SIM_EXPORT void sim_process_use(void);

/* Whether this is the child of a process that held state. Takes no lock. */
SIM_EXPORT int sim_process_forked(void);

#endif
