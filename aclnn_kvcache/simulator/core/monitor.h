/* SPDX-License-Identifier: Apache-2.0 */
/* The one lock and condition for what makes a stream wait: the latch and events. Shared by all of them, so that dropping
   a stream's work ends whatever wait its worker is in. */
#ifndef ACLSIM_CORE_MONITOR_H_
#define ACLSIM_CORE_MONITOR_H_

#include <pthread.h>
#include <stdint.h>
#include <time.h>

void sim_monitor_lock(void);
void sim_monitor_unlock(void);

/* Waits, with the lock held, for the next broadcast; non-zero when the deadline passed. NULL is no deadline. */
int sim_monitor_wait(const struct timespec *deadline);

/* Wakes all waiters and gives the lock back. */
void sim_monitor_wake_and_unlock(void);

/* How many times that was; never 0. */
uint64_t sim_monitor_wakes(void);

/* Monotonic time: now, and now plus milliseconds. */
int64_t sim_now_ns(void);
struct timespec sim_deadline(int64_t milliseconds);

/* A condition that measures time by the same clock. */
void sim_condition_init(pthread_cond_t *condition);

#endif
