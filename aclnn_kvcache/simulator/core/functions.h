/* SPDX-License-Identifier: Apache-2.0 */
/* All functions that the simulator exports under CANN's names, and how each fails by nature. */
#ifndef ACLSIM_CORE_FUNCTIONS_H_
#define ACLSIM_CORE_FUNCTIONS_H_

#include "acl/acl_base_rt.h"

typedef enum {
    SIM_RETURNS_STATUS,
    SIM_RETURNS_POINTER, /* NULL is its failure */
    SIM_RETURNS_VALUE,   /* it cannot fail */
} sim_returns;

typedef struct {
    const char *name;
    sim_returns returns;
    aclError failure; /* the status that it answers where no other is asked for */
    int queues;       /* its work is a task */
    int sizes;        /* it is a phase 1: its out-parameters are a size and an executor */
} sim_function;

/* NULL for a name that there is not. */
const sim_function *sim_function_find(const char *name);

#endif
