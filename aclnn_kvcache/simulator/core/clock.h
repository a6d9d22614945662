/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks: how far somebody has seen each agent come. Immutable once shared, so that a clock that does not change
   costs nothing to hand on; NULL has seen nothing. Needs the lock of order.h. */
#ifndef ACLSIM_CORE_CLOCK_H_
#define ACLSIM_CORE_CLOCK_H_

#include <stddef.h>
#include <stdint.h>

typedef struct sim_clock sim_clock;

sim_clock *sim_clock_share(sim_clock *clock);
void sim_clock_drop(sim_clock *clock);

/* The newest number of the agent that the clock has seen. */
uint64_t sim_clock_seen(const sim_clock *clock, size_t agent);

/* Whether the clock has seen all that the other has. */
int sim_clock_has_seen(const sim_clock *clock, const sim_clock *other);

/* Replaces the clock by one that has also seen the number of the agent, or all that another has seen. 0, and unchanged,
   when the host has no memory. */
int sim_clock_advance(sim_clock **clock, size_t agent, uint64_t number);
int sim_clock_learn(sim_clock **clock, sim_clock *other);

/* What both have seen, into the first. Likewise. */
int sim_clock_lower(sim_clock **clock, const sim_clock *other);

#endif
