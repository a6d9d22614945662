/* SPDX-License-Identifier: Apache-2.0 */
/* What the simulator looks for beyond CANN's own answers, and how it says what it found. A report never changes the
   status of a call. aclsim/aclsim.h says where reports go. */
#ifndef ACLSIM_CORE_CHECKS_H_
#define ACLSIM_CORE_CHECKS_H_

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base_rt.h"
#include "core/export.h"

typedef enum {
    SIM_CHECK_MEM = 1 << 0,
    SIM_CHECK_INIT = 1 << 1,
    SIM_CHECK_RACE = 1 << 2,
    SIM_CHECK_SYNC = 1 << 3,
    SIM_CHECK_API = 1 << 4,
    SIM_CHECK_LEAK = 1 << 5,
} sim_check;

/* The checks that are on. Only sim_checking reads it. */
SIM_EXPORT extern atomic_uint sim_checks_on;

/* Whether the check is on: ask before doing any work for it. */
static inline int sim_checking(sim_check check)
{
    return (atomic_load_explicit(&sim_checks_on, memory_order_relaxed) & (unsigned)check) != 0;
}

/* Makes a report, or nothing while the check is off. The kind is a short identifier such as "out_of_bounds_write", the
   function the operator or the call that did it, the text one sentence without its full stop. Needs no lock and takes
   none that is not its own, so it may be called anywhere but in a signal handler. */
SIM_EXPORT void sim_report(sim_check check, const char *kind, const char *function, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whose work a thread does: what a report names. Threads other than the workers of streams work for themselves. */
typedef struct {
    int32_t device;
    int32_t stream;
    uint32_t thread;    /* that queued it; 0 is this one */
    uint64_t queued_at; /* in ticks; see core/origin.h */
} sim_check_work;

/* For the worker of a stream, before each task; and to report what others did. Returns whose work it did before. */
sim_check_work sim_check_on_stream(sim_check_work work);

/* When the work that this thread does was queued; UINT64_MAX when it was not. */
SIM_EXPORT uint64_t sim_check_queued_at(void);

/* Changes whenever the checks do. What a check knows of something holds as long as this is what it was then: nobody
   looked meanwhile. */
unsigned sim_check_epoch(void);

/* A failure with the status where environment variable ACLSIM_CHECK is wrong, else ACL_SUCCESS. */
SIM_EXPORT aclError sim_check_require(const char *function, aclError status);

/* The names of the checks that are on, as a JSON array. */
void sim_check_list(char *text, size_t bytes);

/* "mem" for SIM_CHECK_MEM. */
const char *sim_check_name(sim_check check);

/* The same for a fault that a signal tells of: neither the recent messages nor the queue get it. */
void sim_report_from_signal(const char *kind, const char *text);

/* Opens the file of environment variable ACLSIM_REPORT; for the loading of the library. */
void sim_check_open_report(void);

#endif
