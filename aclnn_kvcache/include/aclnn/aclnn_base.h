/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation of the aclnn layer; optional after aclInit. */
#ifndef ACLNN_KVCACHE_ACLNN_ACLNN_BASE_H_
#define ACLNN_KVCACHE_ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnInit(const char *configPath);
aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACLNN_ACLNN_BASE_H_ */
