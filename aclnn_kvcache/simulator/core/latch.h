/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_CORE_LATCH_H_
#define ACLSIM_CORE_LATCH_H_

#include <stdatomic.h>

/* Returns when streams are not held, or once the flag is set (and the monitor's waiters woken). */
void sim_latch_wait(const atomic_int *dropped);

#endif
