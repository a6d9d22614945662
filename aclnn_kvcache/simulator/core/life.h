/* SPDX-License-Identifier: Apache-2.0 */
/* Whether ACL is initialised. CANN hardly looks; the checks do. */
#ifndef ACLSIM_CORE_LIFE_H_
#define ACLSIM_CORE_LIFE_H_

#include "core/export.h"

typedef enum {
    SIM_NOT_INITIALISED,
    SIM_INITIALISED,
    SIM_FINALISED,
} sim_life;

SIM_EXPORT void sim_life_set(sim_life life);

/* Reports the first call that comes too early or too late. */
SIM_EXPORT void sim_life_require(const char *function);

#endif
