/* SPDX-License-Identifier: Apache-2.0 */
/* Faults on demand: aclsim_set_faults of aclsim/aclsim.h has the plan. Every exported function begins with SIM_CALL. */
#ifndef ACLSIM_CORE_FAULTS_H_
#define ACLSIM_CORE_FAULTS_H_

#include <stdatomic.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"
#include "core/export.h"

#define SIM_FAULT_TEXT "the fault plan has it fail here"

/* What is planned for one call or task; zeros are nothing. */
typedef struct {
    int64_t delay_us;
    int is_failure;
    int is_after;   /* it fails behind its work */
    int is_rubbish; /* its out-parameters are filled with rubbish */
    aclError status;
} sim_fault;

/* Whether calls are counted and may fail; true until the environment was looked at. */
SIM_EXPORT extern atomic_int sim_is_watching;

/* Counts a call, and waits as planned; 0 for one inside another. Else sim_call_end follows, on this thread. */
SIM_EXPORT int sim_call_begin(const char *function, sim_fault *fault);
/* Reports the failure, if there is one to report. */
SIM_EXPORT void sim_call_end(const char *function, const sim_fault *fault);

/* Calls of this thread are none of the program's: not counted, not watched. */
void sim_calls_ignore(void);

/* First in every exported function. AGAIN is its own call with its own arguments, by which the work is done where calls
   are watched. What is no status fails as NULL. SCRIBBLE fills the out-parameters. */
#define SIM_CALL_SCRIBBLING(scribble, again)                                                            \
    do {                                                                                                \
        sim_fault fault_;                                                                               \
        if (atomic_load_explicit(&sim_is_watching, memory_order_relaxed) &&                             \
            sim_call_begin(__func__, &fault_)) {                                                        \
            __typeof__(again) result_ = fault_.is_failure && !fault_.is_after ? 0 : (again);            \
            if (fault_.is_rubbish) {                                                                    \
                scribble;                                                                               \
            }                                                                                           \
            sim_call_end(__func__, &fault_);                                                            \
            return fault_.is_failure ? _Generic((again), int: fault_.status, default: 0) : result_;     \
        }                                                                                               \
    } while (0)

#define SIM_CALL(again) SIM_CALL_SCRIBBLING((void)0, again)

sim_fault sim_fault_of_task(const char *name);

/* Whether this allocation is planned to find no memory. */
int sim_fault_exhausts(void);

/* The recent message as planned, for this thread until the next call. */
SIM_EXPORT const char *sim_fault_message(const char *said);

/* A failure while environment variable ACLSIM_FAULTS is wrong. */
SIM_EXPORT aclError sim_faults_require(const char *function, aclError status);

#endif
