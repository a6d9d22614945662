/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory and which objects queued work uses, until the host has waited for that work. */
#ifndef ACLSIM_CORE_IN_FLIGHT_H_
#define ACLSIM_CORE_IN_FLIGHT_H_

#include "core/footprint.h"

/* Something that a task uses: memory by an address inside it, an object by its own. */
typedef struct {
    const char *what;
    const void *thing;
    sim_span touches; /* of memory: the bytes that the task may touch, written or not */
    int is_written;
} sim_use;

/* The queued call uses these, from now until it has ended. */
void sim_in_flight_use(sim_call *call, const sim_use *uses, size_t count);

/* The function ends the object, or the memory of so many bytes: reports each stream whose work may still use it, and
   what races with work that has yet to run; forgets the uses and all that was touched there. The format says which it
   is. */
SIM_EXPORT void sim_in_flight_end(const char *function, const char *kind, const void *thing, size_t bytes,
    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* With the lock of order.h: forgets the work that the host waited for, or all. */
void sim_in_flight_prune(void);
void sim_in_flight_forget_all(void);

#endif
