/* SPDX-License-Identifier: Apache-2.0 */
/* Name under which programs include the basic types. */
#ifndef ACLNN_KVCACHE_ACL_ACL_BASE_H_
#define ACLNN_KVCACHE_ACL_ACL_BASE_H_

#include "acl/acl_base_rt.h"



#endif /* ACLNN_KVCACHE_ACL_ACL_BASE_H_ */
