/* SPDX-License-Identifier: Apache-2.0 */
/* When queued tasks run: aclsim_set_schedule of aclsim/aclsim.h has the ways, aclsim_hold_streams the latch. */
#ifndef ACLSIM_CORE_SCHEDULE_H_
#define ACLSIM_CORE_SCHEDULE_H_

#include <stdint.h>

#include "core/export.h"
#include "core/stream.h"

/* The place of a task among all that were queued. */
uint64_t sim_schedule_ticket(void);

/* On the worker: returns when the stream's n-th task may run, or once the stream's work is dropped. */
void sim_schedule_await(sim_stream *stream, uint64_t ticket, uint32_t task);

/* Whether a call shall return only when the task that it queued ran. */
int sim_schedule_is_immediate(void);

/* Around every wait of the host for queued work. */
void sim_schedule_begin_wait(void);
void sim_schedule_end_wait(void);

/* After every question of the host about queued work, and every copy that could show it: who asks again and again gets
   on. */
SIM_EXPORT void sim_schedule_demand(void);

/* On the worker: sleeps, unless the stream's work is dropped meanwhile. */
void sim_schedule_pause(const sim_stream *stream, int64_t microseconds);

/* A failure while environment variable ACLSIM_SCHEDULE is wrong. */
SIM_EXPORT aclError sim_schedule_require(const char *function, aclError status);

#endif
