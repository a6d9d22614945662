/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor handle stands for. The operators' library creates and runs executors; this library answers the calls
   that do not depend on the operator. */
#ifndef ACLSIM_NNOPBASE_EXECUTOR_H_
#define ACLSIM_NNOPBASE_EXECUTOR_H_

#include "aclnn/acl_meta.h"

typedef enum {
    SIM_COMPOSITE,      /* phase 1 missed the executor cache: addresses are read in phase 2 */
    SIM_CACHED_WRAPPER, /* phase 1 hit it: addresses are those of phase 1, and it runs once only */
} sim_executor_kind;

typedef struct sim_executor sim_executor;

struct sim_executor {
    sim_executor_kind kind;
    const char *single_use; /* why it cannot be made repeatable; NULL when it can */
    bool repeatable;
    void (*release)(sim_executor *executor);
};

#endif
