/* SPDX-License-Identifier: Apache-2.0 */
#include "core/monitor.h"

#include <errno.h>
#include <stdatomic.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static atomic_uint_fast64_t wakes = 1;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start(void)
{
    sim_condition_init(&changed);
}

void sim_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

void sim_monitor_lock(void)
{
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
}

void sim_monitor_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

int sim_monitor_wait(const struct timespec *deadline)
{
    if (deadline == NULL) {
        pthread_cond_wait(&changed, &mutex);
        return 0;
    }
    return pthread_cond_timedwait(&changed, &mutex, deadline) == ETIMEDOUT;
}

void sim_monitor_wake_and_unlock(void)
{
    atomic_fetch_add(&wakes, 1);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

uint64_t sim_monitor_wakes(void)
{
    return atomic_load(&wakes);
}

int64_t sim_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct timespec sim_deadline(int64_t milliseconds)
{
    int64_t end = sim_now_ns() + milliseconds * 1000000;
    return (struct timespec){.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
}
