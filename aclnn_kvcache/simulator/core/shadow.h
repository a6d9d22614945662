/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of device memory were ever written. What was made while the check was off counts as written, and so does
   memory of the host. Ask sim_checking(SIM_CHECK_INIT) before each of these; ranges lie in one live allocation. */
#ifndef ACLSIM_CORE_SHADOW_H_
#define ACLSIM_CORE_SHADOW_H_

#include <stddef.h>

#include "core/export.h"

SIM_EXPORT void sim_shadow_write(const void *address, size_t bytes);

/* A copy is as written as its source. */
SIM_EXPORT void sim_shadow_copy(const void *to, const void *from, size_t bytes);

/* How many bytes from the first on are written, or not written. */
SIM_EXPORT size_t sim_shadow_written(const void *address, size_t bytes);
SIM_EXPORT size_t sim_shadow_unwritten(const void *address, size_t bytes);

/* Whether to report that the function reads bytes of this allocation that were never written: once each. */
SIM_EXPORT int sim_shadow_first(const void *address, const char *function);

/* The range holds anything from now on: other bytes than before, none of them written. */
SIM_EXPORT void sim_shadow_taint(const void *address, size_t bytes);

/* Fills the beginning and the end with a pattern: enough to be noticed, and cheap for large memory. */
void sim_poison(char *bytes, size_t count, int pattern);

#endif
