/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a queue and a worker thread each. */
#ifndef ACLSIM_CORE_STREAM_H_
#define ACLSIM_CORE_STREAM_H_

#include "acl/acl_rt.h"

typedef struct {
    const char *name;              /* for messages: the operator or the runtime call */
    aclError (*run)(void *arg);    /* on the worker thread; a non-zero result is a fault, reported at the next synchronise */
    void (*release)(void *arg);    /* after run, and also when the task is dropped or refused */
    void *arg;
} sim_task;

/* Queues the task; NULL is the default stream of the thread's current context. Whatever is returned, the task's argument
   belongs to the stream from here on. Counts as a kernel launch when is_kernel. */
aclError sim_stream_enqueue(aclrtStream stream, sim_task task, int is_kernel);

#endif
