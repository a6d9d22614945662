/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_ASCENDCL_CONFIG_H_
#define ACLSIM_ASCENDCL_CONFIG_H_

#include "acl/acl_base_rt.h"

/* The content of a configuration file, which the caller frees; "" for no path or an empty one. */
aclError config_read(const char *function, const char *path, char **content);

#endif
