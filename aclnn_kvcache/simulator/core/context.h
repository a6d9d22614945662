/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_CORE_CONTEXT_H_
#define ACLSIM_CORE_CONTEXT_H_

#include <stdint.h>

/* The device of the calling thread's current context; ACL_ERROR_RT_CONTEXT_NULL when it has none. */
int sim_current_device(int32_t *device);

#endif
