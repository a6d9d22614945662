/* SPDX-License-Identifier: Apache-2.0 */
/* The agents of order.h: the host and the streams, and how far each has come. For agent.c and order.c only. */
#ifndef ACLSIM_CORE_AGENT_H_
#define ACLSIM_CORE_AGENT_H_

#include "core/order.h"

typedef struct {
    int open;
    uint64_t issued;  /* numbers go on where another stream took the agent over: it began when the other was done */
    uint64_t ended;
    sim_clock *clock; /* what its newest call that began comes after */
    sim_call *first;  /* that did not end */
    sim_call *last;
} sim_agent;

/* All with the lock. The pointer holds until another agent is opened. */
sim_agent *sim_agent_at(size_t index);
/* Makes sure that the host is one; 0 when it has no memory. */
int sim_agents_open_host(void);

/* What calls that are of interest have as their watch. */
unsigned sim_agents_watch(void);
/* Makes all calls so far uninteresting: an order that could not be kept must not become an alarm. */
void sim_agents_forget_calls(void);

/* Like those of clock.h; where the host has no memory for it, forgets all calls. */
void sim_agent_learn(sim_clock **clock, sim_clock *other);
void sim_agent_advance(sim_clock **clock, size_t index, uint64_t number);

#endif
