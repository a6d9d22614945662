/* SPDX-License-Identifier: Apache-2.0 */
/* Which installation is simulated: aclsim_set_profile of aclsim/aclsim.h has the text that says so. */
#ifndef ACLSIM_CORE_PROFILE_H_
#define ACLSIM_CORE_PROFILE_H_

#include "acl/acl_base_rt.h"
#include "core/export.h"

typedef struct {
    char soc[64];
    int devices;
    char cann[16];       /* empty: what the runtime library was built as */
    unsigned no_kernels; /* a bit for each operator */
} sim_profile;

/* The profile in force, never changed and never freed; NULL where the environment's is wrong. */
SIM_EXPORT const sim_profile *sim_profile_in_force(void);

/* The same, or a failure with the status that names the environment variable. */
SIM_EXPORT const sim_profile *sim_profile_require(const char *function, aclError status);

/* Whether the operator package has no kernels of this operator for the product. */
SIM_EXPORT int sim_profile_lacks_kernels(const sim_profile *profile, const char *operator_name);

/* While ACL is initialised the profile stays. */
SIM_EXPORT void sim_profile_freeze(int is_frozen);

#endif
