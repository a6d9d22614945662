/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of device memory. Device addresses are not mapped for the host: touching one from host code faults, as
   on the device; kernels and copies go through this translation. */
#ifndef ACLSIM_CORE_MEMORY_H_
#define ACLSIM_CORE_MEMORY_H_

#include <stddef.h>

/* Where the bytes of a device range lie for the simulator; NULL unless the whole range is inside one live allocation. */
void *sim_memory_resolve(const void *device_address, size_t bytes);

#endif
