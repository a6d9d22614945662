/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated devices. Device numbers are those that callers use, after ASCEND_RT_VISIBLE_DEVICES. */
#ifndef ACLSIM_CORE_DEVICE_H_
#define ACLSIM_CORE_DEVICE_H_

#include "acl/acl_base_rt.h"
#include "core/export.h"

#define SIM_DEVICES 2
#define SIM_MOST_DEVICES 8 /* that a profile can have */
#define SIM_SOC_NAME "Ascend950PR_9599"
#define SIM_CUBE_CORES 36
#define SIM_VECTOR_CORES 72
#define SIM_DEVICE_MEMORY (8ULL << 30)

/* Number of visible devices. Reports and returns the failure for an environment variable that is wrong. */
SIM_EXPORT aclError sim_device_count(const char *function, int *count);

/* The same for a device that does not exist, too. */
SIM_EXPORT aclError sim_device_check(const char *function, const char *parameter, int64_t device);

/* The product; NULL, after the failure with the status was reported, where nothing tells it. */
SIM_EXPORT const char *sim_device_soc_name(const char *function, aclError status);

/* The number of a visible device before the variable was applied. */
SIM_EXPORT int sim_device_physical(int32_t device);

/* Copies between devices need this; directed, per pair. */
SIM_EXPORT void sim_device_enable_peer(int32_t device, int32_t peer);
SIM_EXPORT int sim_device_reaches(int32_t device, int32_t other);

#endif
