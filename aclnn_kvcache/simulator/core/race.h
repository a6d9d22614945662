/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls touched which bytes, for as long as another could still race with them. */
#ifndef ACLSIM_CORE_RACE_H_
#define ACLSIM_CORE_RACE_H_

#include "core/footprint.h"

/* All with the lock of order.h. */

/* Compares what the call touched with what others did in no order with it, reports what clashes, and keeps it. Takes the
   spans. */
void sim_race_enter(sim_call *call, sim_footprint *footprint);

/* The same for a call that has yet to touch the bytes and will not find them any more. Nothing is kept. */
void sim_race_foresee(sim_call *call, const sim_footprint *footprint);

/* The memory is no more: what lies there next is something else. */
void sim_race_forget(const void *address, size_t bytes);

/* Forgets what no call can race with any more, or all. */
void sim_race_prune(void);
void sim_race_forget_all(void);

#endif
