/* SPDX-License-Identifier: Apache-2.0 */
/* Events. A record begins when it is called and is done when its task runs; whoever waits, waits for one of them. */
#ifndef ACLSIM_CORE_EVENT_H_
#define ACLSIM_CORE_EVENT_H_

#include "acl/acl_rt.h"
#include "core/export.h"
#include "core/stream.h"

#define SIM_EVENTS_PER_DEVICE 65536

typedef enum {
    SIM_EVENT_PLAIN,     /* aclrtCreateEvent */
    SIM_EVENT_WITH_FLAG, /* aclrtCreateEventWithFlag */
    SIM_EVENT_EX,        /* aclrtCreateEventExWithFlag */
} sim_event_family;

typedef struct sim_event sim_event;

/* An event of the current context. */
SIM_EXPORT aclError sim_event_create(const char *function, sim_event_family family, uint32_t flags, aclrtEvent *handle);
SIM_EXPORT aclError sim_event_destroy(const char *function, aclrtEvent handle);
/* Ends all events of a context. */
/* Whose it is: the handle of a context. */
const void *sim_event_context(const sim_event *event);
void sim_event_retain(void *event);

void sim_events_close(const char *function, const void *context);

/* An event in use by the caller, who releases it. */
SIM_EXPORT aclError sim_event_acquire(const char *function, const char *parameter, aclrtEvent handle, sim_event **event);
SIM_EXPORT void sim_event_release(sim_event *event);

SIM_EXPORT sim_event_family sim_event_family_of(const sim_event *event);
SIM_EXPORT uint32_t sim_event_flags(const sim_event *event);
SIM_EXPORT uint32_t sim_event_id(const sim_event *event);
SIM_EXPORT const void *sim_event_handle(const sim_event *event);

SIM_EXPORT aclError sim_event_record(const char *function, sim_event *event, sim_stream *stream);
/* As if it had never been recorded. */
SIM_EXPORT void sim_event_reset(sim_event *event);
/* The stream waits; 0 seconds is for ever. */
SIM_EXPORT aclError sim_event_delay_stream(const char *function, sim_event *event, sim_stream *stream, uint32_t seconds);
/* The calling thread waits for the records made so far; -1 is for ever. Returns 0 when time ran out. */
SIM_EXPORT int sim_event_wait(const char *function, sim_event *event, int32_t milliseconds);

/* Whether it was ever recorded, and if so whether the last record is done. */
SIM_EXPORT int sim_event_recorded(sim_event *event);
SIM_EXPORT int sim_event_done(sim_event *event);
/* Whether the host waited for the last record, or saw it done; for the checks. */
SIM_EXPORT int sim_event_awaited(sim_event *event);
SIM_EXPORT int sim_event_waits_done(sim_event *event);
/* When the last record was done, in nanoseconds; 0 when it is not, or was dropped. */
SIM_EXPORT int64_t sim_event_time(sim_event *event);

#endif
