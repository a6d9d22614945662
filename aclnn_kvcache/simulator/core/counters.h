/* SPDX-License-Identifier: Apache-2.0 */
/* The counters that aclsim_counter reads. Objects behind handles are counted by their handles instead. */
#ifndef ACLSIM_CORE_COUNTERS_H_
#define ACLSIM_CORE_COUNTERS_H_

#include "aclsim/aclsim.h"
#include "core/export.h"

SIM_EXPORT void sim_count(aclsimCounter counter, int64_t change);

#endif
