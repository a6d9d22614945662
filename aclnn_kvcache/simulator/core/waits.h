/* SPDX-License-Identifier: Apache-2.0 */
/* Which streams wait for which events right now, so that a wait that nothing will end can be told. */
#ifndef ACLSIM_CORE_WAITS_H_
#define ACLSIM_CORE_WAITS_H_

#include "core/event_object.h"
#include "core/stream.h"

/* How long the host waits before it asks whether there is anything to wait for. */
#define SIM_PATIENCE_MS 2000

typedef struct sim_wait {
    struct sim_wait *next;
    const sim_stream *stream;
    const sim_event *event;
    const sim_record *record;
    int is_told;
} sim_wait;

/* All with the monitor's lock. The wait is its caller's, between these two. */
void sim_waits_begin(sim_wait *wait);
void sim_waits_end(sim_wait *wait);

/* The function waits for the stream: reports, once, the event without a record that this comes down to, if any. */
void sim_waits_report(const char *function, const sim_stream *stream);

/* The earlier of the deadline, which may be NULL for none, and the end of patience that begins now. */
struct timespec sim_waits_patience(const struct timespec *deadline);

#endif
