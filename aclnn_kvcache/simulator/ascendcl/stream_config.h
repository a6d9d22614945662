/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_ASCENDCL_STREAM_CONFIG_H_
#define ACLSIM_ASCENDCL_STREAM_CONFIG_H_

#include "acl/acl_rt.h"

/* A copy of what the handle holds. */
aclError stream_config_read(const char *function, const aclrtStreamConfigHandle *handle,
    aclrtStreamConfigHandle *config);

#endif
