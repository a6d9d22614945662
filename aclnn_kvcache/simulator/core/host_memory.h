/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the runtime knows: pinned by aclrtMallocHost, or registered. */
#ifndef ACLSIM_CORE_HOST_MEMORY_H_
#define ACLSIM_CORE_HOST_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "core/export.h"
#include "core/origin.h"

typedef enum {
    SIM_HOST_PINNED,
    SIM_HOST_REGISTERED, /* pinned, not reachable by the device */
    SIM_HOST_MAPPED,     /* registered and reachable by the device, at the same address */
} sim_host_kind;

/* Functions are those whose call this is. NULL when the host has no memory. */
SIM_EXPORT void *sim_host_allocate(const char *function, size_t bytes);
/* 0 unless the address came from sim_host_allocate and is live. */
SIM_EXPORT int sim_host_free(const char *function, void *address);

/* Reports what a parameter says to be in memory that was freed lately; 0, and no report, for any other address. Nothing is
   known of it while memory is not checked. */
SIM_EXPORT int sim_host_report_freed(const char *function, const char *kind, const char *parameter,
    const void *address);

/* 0 when a part of the range is known already. */
SIM_EXPORT int sim_host_register(const char *function, void *address, size_t bytes, sim_host_kind kind);
/* 0 unless the address was registered. */
SIM_EXPORT int sim_host_unregister(void *address);

/* The known memory that holds the address: bytes from the address to its end, and its kind; 0 when there is none. */
SIM_EXPORT int sim_host_find(const void *address, size_t *bytes, sim_host_kind *kind);

/* Keeps known memory from being freed while work touches it. */
SIM_EXPORT void sim_host_hold(void);
SIM_EXPORT void sim_host_unhold(void);

typedef struct {
    uintptr_t start;
    size_t bytes;
    sim_host_kind kind;
    sim_origin origin;
} sim_host_range;

/* All known memory; the caller frees the array. */
size_t sim_host_list(sim_host_range **ranges);

/* The address itself when the range lies in mapped memory, else NULL. */
void *sim_host_resolve(const void *address, size_t bytes);

#endif
