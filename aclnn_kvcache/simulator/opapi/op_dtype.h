/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACLSIM_OPAPI_OP_DTYPE_H_
#define ACLSIM_OPAPI_OP_DTYPE_H_

#include "aclnn/acl_meta.h"

/* For messages. */
const char *op_dtype_name(aclDataType dtype);

#endif
