/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of device memory. Device addresses are not mapped for the host: touching one from host code faults, as
   on the device; kernels and copies go through this translation. */
#ifndef ACLSIM_CORE_MEMORY_H_
#define ACLSIM_CORE_MEMORY_H_

#include <stddef.h>
#include <stdint.h>

#include "core/export.h"
#include "core/origin.h"

/* Where the bytes of a device range lie for the simulator; NULL unless the whole range is inside one live allocation
   (or inside host memory that is registered for the device). */
SIM_EXPORT void *sim_memory_resolve(const void *device_address, size_t bytes);

/* What follows is for the runtime's own functions; function is the one whose call this is. */

typedef enum {
    SIM_MEMORY_OK,
    SIM_MEMORY_EXHAUSTED, /* of the device */
    SIM_MEMORY_NO_ARENA,  /* the host refuses the address space */
} sim_memory_result;

/* Bytes are those asked for with CANN's padding: they can be touched, too. */
SIM_EXPORT sim_memory_result sim_memory_allocate(const char *function, int32_t device, size_t asked, size_t bytes,
    void **address);

/* 0 unless the address is the start of a live allocation. Does not wait for anything that uses it. */
SIM_EXPORT int sim_memory_free(const char *function, void *address);

/* Frees all memory of a device. */
void sim_memory_free_all(const char *function, int32_t device);

/* Whether the address is a device's, live or not; tells which one. */
SIM_EXPORT int sim_memory_is_device(const void *address, int32_t *device);

/* Start and size of the live allocation that holds the address; 0 when there is none. */
SIM_EXPORT int sim_memory_find(const void *address, void **start, size_t *bytes);

SIM_EXPORT size_t sim_memory_in_use(int32_t device);

typedef struct {
    int32_t device;
    uintptr_t start;
    size_t bytes;
    sim_origin origin;
} sim_memory_entry;

/* The live allocations of a device; the caller frees the array. */
size_t sim_memory_list(int32_t device, sim_memory_entry **entries);

#endif
