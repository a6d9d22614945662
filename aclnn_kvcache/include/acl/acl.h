/* SPDX-License-Identifier: Apache-2.0 */
/* Entry header: initialisation and everything of the runtime. */
#ifndef ACLNN_KVCACHE_ACL_ACL_H_
#define ACLNN_KVCACHE_ACL_ACL_H_

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

aclError aclInit(const char *configPath);
aclError aclFinalize(void);
aclError aclFinalizeReference(uint64_t *refCount);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACL_ACL_H_ */
