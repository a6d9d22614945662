/* SPDX-License-Identifier: Apache-2.0 */
/* How every function of the runtime begins and fails. */
#ifndef ACLSIM_ASCENDCL_API_H_
#define ACLSIM_ASCENDCL_API_H_

#include "core/export.h"
#include "core/faults.h"
#include "core/life.h"
#include "core/process.h"
#include "core/report.h"

#define FAIL(status, ...) sim_fail((status), __func__, __VA_ARGS__)

/* First in a function that needs no initialisation, with its own call: a forked child is refused before anything could
   wait. */
#define ENTER_ANY_TIME(again)                  \
    do {                                       \
        SIM_CALL(again);                       \
        if (sim_process_forked()) {            \
            return sim_fail_forked(__func__);  \
        }                                      \
    } while (0)

/* First in every other. */
#define ENTER(again)                 \
    do {                             \
        ENTER_ANY_TIME(again);       \
        sim_life_require(__func__);  \
    } while (0)

#define REQUIRE(pointer)                               \
    do {                                               \
        if ((pointer) == NULL) {                       \
            return sim_fail_null(__func__, #pointer);  \
        }                                              \
    } while (0)

#define TRY(call)                       \
    do {                                \
        aclError status_ = (call);      \
        if (status_ != ACL_SUCCESS) {   \
            return status_;             \
        }                               \
    } while (0)

/* Synchronise calls take -1 or a positive number of milliseconds. */
#define REQUIRE_TIMEOUT(timeout)                                                                                  \
    do {                                                                                                          \
        if ((timeout) == 0 || (timeout) < -1) {                                                                   \
            return FAIL(ACL_ERROR_RT_PARAM_INVALID,                                                               \
                #timeout " is %d; expected -1 or a positive number of milliseconds", (timeout));                  \
        }                                                                                                         \
    } while (0)

#endif
