/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a fault plan, read. */
#ifndef ACLSIM_CORE_FAULT_PLAN_H_
#define ACLSIM_CORE_FAULT_PLAN_H_

#include <stddef.h>

#include "core/faults.h"
#include "core/functions.h"
#include "core/setting.h"

typedef enum {
    SIM_FAULT_OF_CALL, /* of one function */
    SIM_FAULT_OF_ANY_CALL,
    SIM_FAULT_OF_TASK,
    SIM_FAULT_OF_ALLOCATION,
} sim_fault_target;

typedef struct {
    sim_fault_target target;
    const sim_function *function; /* of a call or a task */
    int64_t number;               /* from 1; 0 is every one */
    int64_t seen;
    sim_fault fault;
} sim_fault_rule;

typedef enum {
    SIM_MESSAGE_GOOD,
    SIM_MESSAGE_NULL,
    SIM_MESSAGE_BAD_BYTES,
    SIM_MESSAGE_STALE,
} sim_message_manner;

typedef struct {
    sim_message_manner message;
    size_t count;
    sim_fault_rule rules[];
} sim_fault_plan;

/* What malloc gave; NULL with the reason for a text that is wrong. */
sim_fault_plan *sim_fault_plan_read(const char *text, char reason[SIM_REASON_BYTES]);

#endif
