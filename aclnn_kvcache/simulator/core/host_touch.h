/* SPDX-License-Identifier: Apache-2.0 */
/* Device addresses are no memory of the host's, so that touching one is a segmentation fault. With memory checked, the
   fault says first what was touched. */
#ifndef ACLSIM_CORE_HOST_TOUCH_H_
#define ACLSIM_CORE_HOST_TOUCH_H_

#include "core/export.h"

/* Installs the handler or takes it away; called again, it changes nothing. */
void sim_host_touch_watch(int is_on);

/* Says on standard error that another handler has taken its place, if one has: the program may mean it, so that this is
   no report. */
SIM_EXPORT void sim_host_touch_look(void);

#endif
