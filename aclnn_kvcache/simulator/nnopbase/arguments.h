/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to arguments that are NULL or no live handle, the same for every function of this library. */
#ifndef ACLSIM_NNOPBASE_ARGUMENTS_H_
#define ACLSIM_NNOPBASE_ARGUMENTS_H_

#include "aclnn/acl_meta.h"
#include "core/handle.h"

/* Records that the parameter is NULL and returns the status; its family decides the message's code. */
aclnnStatus sim_null_argument(const char *function, const char *parameter, aclnnStatus status);

/* The live object, or NULL after reporting the misuse: CANN would read freed memory there. */
void *sim_live_object(sim_kind kind, const void *handle, const char *function, const char *parameter);

#endif
