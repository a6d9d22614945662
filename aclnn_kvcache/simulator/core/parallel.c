/* SPDX-License-Identifier: Apache-2.0 */
#include "core/parallel.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { MOST_HELPERS = 15, PARTS_FOR_A_HELPER = 4 };

typedef struct {
    atomic_size_t next;
    size_t parts;
    void (*run)(void *work, size_t part);
    void *work;
} job;

static void *take_parts(void *argument)
{
    job *shared = argument;
    size_t part;

    while ((part = atomic_fetch_add_explicit(&shared->next, 1, memory_order_relaxed)) < shared->parts) {
        shared->run(shared->work, part);
    }
    return NULL;
}

/* Those that this thread may run on. */
static size_t cores(void)
{
    cpu_set_t set;

    return pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

/* Signals belong to the program's own threads. */
static size_t start_helpers(size_t wanted, pthread_t helpers[MOST_HELPERS], job *shared)
{
    sigset_t all, before;
    size_t started = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < wanted && pthread_create(&helpers[started], NULL, take_parts, shared) == 0) {
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void sim_parallel(size_t parts, void (*run)(void *work, size_t part), void *work)
{
    job shared = {.parts = parts, .run = run, .work = work};
    pthread_t helpers[MOST_HELPERS];
    size_t wanted = parts / PARTS_FOR_A_HELPER;

    if (wanted > 0) {
        const size_t others = cores() - 1;
        wanted = wanted < others ? wanted : others;
        wanted = wanted < MOST_HELPERS ? wanted : MOST_HELPERS;
    }
    const size_t started = start_helpers(wanted, helpers, &shared);
    take_parts(&shared);
    for (size_t i = 0; i < started; i++) {
        pthread_join(helpers[i], NULL);
    }
}
