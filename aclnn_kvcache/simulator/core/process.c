/* SPDX-License-Identifier: Apache-2.0 */
#include "core/process.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int forked;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_store(&forked, 1);
}

static void watch_fork(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

void sim_process_use(void)
{
    pthread_once(&once, watch_fork);
}

int sim_process_forked(void)
{
    return atomic_load_explicit(&forked, memory_order_relaxed);
}
