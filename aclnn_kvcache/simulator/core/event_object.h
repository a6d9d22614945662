/* SPDX-License-Identifier: Apache-2.0 */
/* What an event is made of; for event.c and event_record.c only. */
#ifndef ACLSIM_CORE_EVENT_OBJECT_H_
#define ACLSIM_CORE_EVENT_OBJECT_H_

#include <stdatomic.h>

#include "core/event.h"
#include "core/order.h"

/* A record that was called, or that a wait expects. With the monitor's lock. */
typedef struct {
    int references;
    int called;
    const sim_stream *stream; /* that does it, once called; not looked at when it is done */
    int done;
    int64_t time_ns;
    sim_clock *mark; /* for the checks; set with done */
} sim_record;

struct sim_event {
    atomic_int references; /* the handle, calls in progress, queued tasks */
    const void *context;
    void *handle;
    int32_t device;
    uint32_t id;
    sim_event_family family;
    uint32_t flags;

    /* With the monitor's lock. */
    int destroyed;
    int forgotten;    /* nothing was recorded since the last reset */
    sim_record *latest;   /* that was called; NULL before the first */
    sim_record *expected; /* by waits that came before it; else NULL */
    uint64_t waits_issued;
    uint64_t waits_completed;
};

/* With the monitor's lock; NULL is fine. */
void sim_record_drop(sim_record *record);

#endif
