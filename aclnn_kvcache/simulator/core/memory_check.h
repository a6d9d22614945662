/* SPDX-License-Identifier: Apache-2.0 */
/* The memory check: accesses against what was asked for, to the byte, and reports that name the allocation. */
#ifndef ACLSIM_CORE_MEMORY_CHECK_H_
#define ACLSIM_CORE_MEMORY_CHECK_H_

#include <stddef.h>

#include "core/export.h"

#define SIM_PLACE_BYTES 384

typedef enum { SIM_READ, SIM_WRITE } sim_access;

/* How many bytes from the address on lie inside what was asked for of one live allocation, or in memory of the host
   that the device reaches; at most the number given. */
SIM_EXPORT size_t sim_memory_inside(const void *address, size_t bytes);

/* The kind of report for an access outside: "use_after_free", "freed_while_queued" or "out_of_bounds_...". */
SIM_EXPORT const char *sim_memory_kind(const void *address, sim_access access);

/* Where an address is, such as: byte 4 of 64 at 0x..., number 3, made by aclrtMalloc. Outside all memory it is seen from
   that which holds the other address, where the access came from. */
SIM_EXPORT void sim_memory_describe(const void *address, const void *from, char text[SIM_PLACE_BYTES]);

/* Reports an access of a call that is not wholly inside, and returns how many bytes are. The parameter names it. */
SIM_EXPORT size_t sim_memory_check(const char *function, const char *parameter, const void *address, size_t bytes,
    sim_access access);

/* Reports an address that cannot be freed. */
void sim_memory_report_free(const char *function, const void *address);

#endif
