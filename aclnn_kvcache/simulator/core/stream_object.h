/* SPDX-License-Identifier: Apache-2.0 */
/* What a stream is made of; for stream.c, stream_fault.c and stream_registry.c only. */
#ifndef ACLSIM_CORE_STREAM_OBJECT_H_
#define ACLSIM_CORE_STREAM_OBJECT_H_

#include <pthread.h>
#include <time.h>

#include "core/faults.h"
#include "core/stream.h"

typedef struct sim_job {
    struct sim_job *next;
    sim_task task;
    int is_kernel;
    uint32_t id;
    uint32_t thread_id; /* of the thread that queued it */
    uint64_t queued_at; /* in ticks */
    sim_call *call;     /* for the checks */
    uint64_t ticket;
    sim_fault fault; /* what was planned for it */
} sim_job;

struct sim_stream {
    atomic_int references; /* the handle and every call in progress; the worker is joined before the handle's goes */
    atomic_int dropped;
    const void *context;
    int32_t device;
    int32_t id;
    int is_default;
    uint32_t priority;
    uint32_t flags;
    size_t agent; /* for the checks */

    pthread_mutex_t mutex; /* for all that follows */
    pthread_cond_t work;
    pthread_cond_t progress;
    pthread_t worker;
    int started;
    int closing;
    int stop_on_failure;
    int stopped;
    uint64_t blocked; /* the sim_monitor_wakes after which the worker still waited for what only a later call can bring */
    sim_job *first;
    sim_job *last;
    uint64_t submitted;
    uint64_t completed;
    struct {
        aclError code;
        const char *task;
        int is_heard; /* a call answered with it */
        char *detail; /* what the worker's message said */
    } fault;
};

sim_stream *sim_stream_new(void);

/* Whether the work queued so far was done before the deadline; NULL is none. */
int sim_stream_wait(const char *function, sim_stream *stream, const struct timespec *deadline);

/* On the worker, without the lock: the job failed. */
void sim_stream_take_fault(sim_stream *stream, const sim_job *job, aclError code);

aclError sim_stream_report_fault(const char *function, sim_stream *stream);

/* Reports a fault that no call has answered with; it counts as told then. */
void sim_stream_report_unheard(const char *function, sim_stream *stream);

/* Ends the worker, after the queued work or dropping it. */
void sim_stream_close(const char *function, sim_stream *stream, int drop_work);

#endif
