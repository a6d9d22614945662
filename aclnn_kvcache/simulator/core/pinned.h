/* SPDX-License-Identifier: Apache-2.0 */
/* The memory behind aclrtMallocHost: bytes around it that nobody may change, and a while in which what was freed is not
   given out again, so that its use can be told. Code of the host that touches freed memory is not seen. */
#ifndef ACLSIM_CORE_PINNED_H_
#define ACLSIM_CORE_PINNED_H_

#include "core/host_memory.h"

/* NULL when the host has no memory. */
void *sim_pinned_allocate(size_t bytes);

/* Ends it; reports, under the function's name, the first byte around it that changed. */
void sim_pinned_free(const char *function, const sim_host_range *range);

#endif
