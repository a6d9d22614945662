/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a queue and a worker thread each. */
#ifndef ACLSIM_CORE_STREAM_H_
#define ACLSIM_CORE_STREAM_H_

#include <stdatomic.h>
#include <time.h>

#include "acl/acl_rt.h"
#include "core/export.h"
#include "core/in_flight.h"

typedef struct {
    const char *name;              /* for messages: the operator or the runtime call */
    aclError (*run)(void *arg);    /* on the worker thread; a non-zero result is a fault, reported at the next synchronise */
    void (*release)(void *arg);    /* after run, and also when the task is dropped or refused */
    void *arg;
    const sim_use *uses;           /* what the task uses until it has run; needed while it is queued only */
    size_t use_count;
} sim_task;

/* Queues the task; NULL is the default stream of the thread's current context. Whatever is returned, the task's argument
   belongs to the stream from here on. Counts as a kernel launch when is_kernel. A refusal is reported under the task's
   name. */
SIM_EXPORT aclError sim_stream_enqueue(aclrtStream stream, sim_task task, int is_kernel);

/* What follows is for the runtime's own functions. `function` is the name that messages carry. */

#define SIM_STREAMS_PER_DEVICE 1984
#define SIM_LOWEST_PRIORITY 7 /* 0 is the highest */

typedef struct sim_stream sim_stream;

/* Whether a call may be made from another context than the stream's. */
typedef enum {
    SIM_OWN_CONTEXT,
    SIM_ANY_CONTEXT,
} sim_stream_scope;

/* A stream in use by the caller, who releases it. */
SIM_EXPORT aclError sim_stream_acquire(const char *function, aclrtStream handle, sim_stream_scope scope,
    sim_stream **stream);
SIM_EXPORT void sim_stream_release(sim_stream *stream);

void sim_stream_retain(void *stream);

/* Whose it is: the handle of a context. */
const void *sim_stream_context(const sim_stream *stream);

/* Like sim_stream_enqueue on a stream in use. */
SIM_EXPORT aclError sim_stream_submit(sim_stream *stream, sim_task task, int is_kernel);

/* Waits for the work queued so far; -1 is forever. Reports and returns its fault. */
SIM_EXPORT aclError sim_stream_synchronize(const char *function, sim_stream *stream, int32_t milliseconds);
/* The same for all streams of a device. */
SIM_EXPORT aclError sim_streams_synchronize(const char *function, int32_t device, int32_t milliseconds);

/* The code of a stream that stopped on failure, reported; 0 for any other. */
SIM_EXPORT aclError sim_stream_check(const char *function, sim_stream *stream);

SIM_EXPORT int sim_stream_idle(sim_stream *stream);
SIM_EXPORT void sim_stream_stop_on_failure(sim_stream *stream, int stop);
int32_t sim_stream_device(const sim_stream *stream);
SIM_EXPORT int32_t sim_stream_id(const sim_stream *stream);
SIM_EXPORT uint32_t sim_stream_priority(const sim_stream *stream);
SIM_EXPORT uint32_t sim_stream_flags(const sim_stream *stream);
SIM_EXPORT uint32_t sim_streams_available(int32_t device);

/* Streams belong to a context by its handle. A context's default stream is closed with the context only. */
aclError sim_stream_create(const char *function, const void *context, int32_t device, int is_default, uint32_t priority,
    uint32_t flags, aclrtStream *handle);
/* A stream of the current context. */
SIM_EXPORT aclError sim_stream_create_here(const char *function, uint32_t priority, uint32_t flags, aclrtStream *handle);
SIM_EXPORT aclError sim_stream_destroy(const char *function, aclrtStream handle, int drop_work);
/* Ends all streams of a context, after their work or dropping it. */
void sim_streams_close(const char *function, const void *context, int drop_work);

/* The function ends the use of all streams, which go on: reports, by this kind, work that nobody waited for, and faults
   that nobody was told of. */
SIM_EXPORT void sim_streams_report_end(const char *function, const char *kind);

/* On the worker: waits for what only a later call can bring, as long as that is so, looked at with the monitor's lock.
   Non-zero when the deadline passed. */
int sim_stream_wait_while(sim_stream *stream, int (*must_wait)(const void *arg), const void *arg,
    const struct timespec *deadline);

/* Set once the stream's work is to be dropped: a wait on its worker ends. */
const atomic_int *sim_stream_dropped(const sim_stream *stream);

#endif
