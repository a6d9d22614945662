/* SPDX-License-Identifier: Apache-2.0 */
/* What happens before what, whatever the timing. Streams and the host are agents whose calls come one after the other;
   a stream's call comes after all that the host knew to be done when it queued it, a wait after what was recorded, and
   the host's next call after what it synchronised with. The threads of the host count as one agent: what orders them
   cannot be seen from here, so the order in which their calls came is believed. */
#ifndef ACLSIM_CORE_ORDER_H_
#define ACLSIM_CORE_ORDER_H_

#include <stddef.h>
#include <stdint.h>

#include "core/checks.h"
#include "core/clock.h"

#define SIM_HOST_AGENT 0

/* Work of one stream's task, or what a function did itself. */
typedef struct sim_call {
    size_t references;
    const char *function;
    int is_host;
    int32_t device;     /* of a stream's call, like the next two; of one on the host -1 */
    int32_t stream;
    uint64_t number;    /* in its stream, from 1 */
    uint32_t thread;    /* that made it */
    uint64_t sequence;  /* in the process, in the order in which the calls were made */
    int is_cut;         /* it ended without having done all that it was to do */
    unsigned watch;     /* whether it is still of interest: see agent.h */
    size_t agent;
    uint64_t at;        /* in its agent */
    sim_clock *clock;   /* what comes before it: of a queued call what the host knew, once it began all of it */
    struct sim_call *next;
} sim_call;

/* Whether calls are followed at all: a check that needs their order is on. Where this is 0 calls are NULL, which every
   function here takes. */
static inline int sim_order_watched(void)
{
    return sim_checking(SIM_CHECK_RACE) || sim_checking(SIM_CHECK_SYNC);
}

/* Streams: their agent; a call queued on it; its beginning and end on the worker, in the order of the queue. */
size_t sim_order_open(void);
void sim_order_close(size_t agent);
sim_call *sim_order_queue(size_t agent, const char *function, int32_t device, int32_t stream, uint64_t number,
    uint32_t thread);
void sim_order_begin(sim_call *call);
void sim_order_end(sim_call *call, int is_cut);

/* The host waited for, or saw the end of, all calls of the agent that have ended. */
void sim_order_host_after(size_t agent);

/* What the host does itself, between these two. NULL when nothing is watched, and in a callback of a stream's worker. */
SIM_EXPORT sim_call *sim_order_host_begin(const char *function);
SIM_EXPORT void sim_order_host_end(sim_call *call);

/* Events: what a record comes after, itself included; a call, or the host, that waited for it. The mark is dropped with
   sim_order_drop_mark. */
sim_clock *sim_order_mark(void);
void sim_order_after_mark(sim_clock *mark);
void sim_order_host_after_mark(sim_clock *mark);
int sim_order_host_knows_mark(sim_clock *mark);
void sim_order_drop_mark(sim_clock *mark);

/* Forgets all calls made so far: nothing is said about them any more. For checks that are set anew. */
void sim_order_restart(void);

/* What follows needs the lock. Under it come only those of the registries of memory, and the reports'. */
void sim_order_lock(void);
void sim_order_unlock(void);
sim_call *sim_call_share(sim_call *call);
void sim_call_drop(sim_call *call);
int sim_call_before(const sim_call *call, const sim_call *other);
/* Whether the host waited for the call. */
int sim_call_awaited(const sim_call *call);
/* Whether the call has ended, and not in the middle: what it touches is known. */
int sim_call_ended(const sim_call *call);
/* Whether the call is still of interest. */
int sim_call_watched(const sim_call *call);
/* What every call that is yet to begin or has not ended comes after; dropped by the caller. */
sim_clock *sim_order_floor(void);

#endif
