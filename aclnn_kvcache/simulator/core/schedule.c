/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclsim/aclsim.h"
#include "core/monitor.h"
#include "core/process.h"
#include "core/setting.h"

#define RANDOM "random:"
#define DIGITS "0123456789"
#define SHORT_US 200
#define LONG_US 5000
#define ONE_IN 8 /* delays that are long ones */

typedef enum {
    WHEN_FREE, /* a worker takes the next task when it has done the one before */
    IMMEDIATELY,
    WHEN_DEMANDED,
    AFTER_DELAYS,
} manner;

static atomic_int in_force; /* a manner */
static atomic_ullong seed;
static atomic_int held;
static atomic_ullong tickets;

/* With the monitor's lock. */
static uint64_t demanded; /* the last ticket that may run */
static int waits;         /* of the host, in progress: everything may run */

static int read_seed(const char *digits, unsigned long long *value)
{
    size_t length = strlen(digits);
    if (length == 0 || length > 19 || strspn(digits, DIGITS) != length) {
        return 0;
    }
    *value = strtoull(digits, NULL, 10);
    return 1;
}

static int take(const char *text, char reason[SIM_REASON_BYTES])
{
    manner chosen;
    unsigned long long new_seed = 0;
    if (text == NULL || *text == '\0' || strcmp(text, "worker") == 0) {
        chosen = WHEN_FREE;
    } else if (strcmp(text, "immediate") == 0) {
        chosen = IMMEDIATELY;
    } else if (strcmp(text, "lazy") == 0) {
        chosen = WHEN_DEMANDED;
    } else if (strncmp(text, RANDOM, strlen(RANDOM)) == 0 && read_seed(text + strlen(RANDOM), &new_seed)) {
        chosen = AFTER_DELAYS;
    } else {
        snprintf(reason, SIM_REASON_BYTES,
            "\"%.99s\" is no schedule; expected worker, immediate, lazy, or random:SEED with a number of at most 19 "
            "digits", text);
        return 0;
    }
    sim_monitor_lock();
    atomic_store(&seed, new_seed);
    atomic_store(&in_force, chosen);
    sim_monitor_wake_and_unlock();
    return 1;
}

static sim_setting setting = {.variable = "ACLSIM_SCHEDULE", .take = take, .lock = PTHREAD_MUTEX_INITIALIZER};

SIM_EXPORT int aclsim_set_schedule(const char *text)
{
    return sim_setting_set(&setting, "aclsim_set_schedule", text);
}

aclError sim_schedule_require(const char *function, aclError status)
{
    return sim_setting_require(&setting, function, status);
}

SIM_EXPORT void aclsim_hold_streams(void)
{
    atomic_store(&held, 1);
}

SIM_EXPORT void aclsim_release_streams(void)
{
    if (!sim_process_forked()) {
        sim_monitor_lock();
        atomic_store(&held, 0);
        sim_monitor_wake_and_unlock();
    }
}

uint64_t sim_schedule_ticket(void)
{
    sim_setting_read(&setting);
    return atomic_fetch_add(&tickets, 1) + 1;
}

int sim_schedule_is_immediate(void)
{
    return atomic_load(&in_force) == IMMEDIATELY;
}

/* The finaliser of splitmix64: every bit of the result depends on every bit of the value. */
static uint64_t mix(uint64_t value)
{
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9U;
    value = (value ^ value >> 27) * 0x94D049BB133111EBU;
    return value ^ value >> 31;
}

/* Depends on the seed and the task's place in its stream alone, not on what other threads do meanwhile. */
static int64_t delay_of(const sim_stream *stream, uint32_t task)
{
    uint64_t place = (uint64_t)sim_stream_device(stream) << 32 | (uint32_t)sim_stream_id(stream);
    uint64_t number = mix(mix(atomic_load(&seed) + mix(place)) + task);
    return (int64_t)(number / ONE_IN % (number % ONE_IN == 0 ? LONG_US : SHORT_US));
}

void sim_schedule_pause(const sim_stream *stream, int64_t microseconds)
{
    int64_t end = sim_now_ns() + microseconds * 1000;
    struct timespec deadline = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
    sim_monitor_lock();
    while (!atomic_load(sim_stream_dropped(stream)) && !sim_monitor_wait(&deadline)) {
    }
    sim_monitor_unlock();
}

typedef struct {
    const sim_stream *stream;
    uint64_t ticket;
} place;

/* With the monitor's lock. */
static int is_kept_back(const void *arg)
{
    const place *p = arg;
    const int is_early = atomic_load(&in_force) == WHEN_DEMANDED && waits == 0 && p->ticket > demanded;
    return (atomic_load(&held) || is_early) && !atomic_load(sim_stream_dropped(p->stream));
}

void sim_schedule_await(sim_stream *stream, uint64_t ticket, uint32_t task)
{
    if (atomic_load(&in_force) == AFTER_DELAYS) {
        sim_schedule_pause(stream, delay_of(stream, task));
    }
    if (!atomic_load(&held) && atomic_load(&in_force) != WHEN_DEMANDED) {
        return;
    }
    sim_stream_wait_while(stream, is_kept_back, &(place){stream, ticket}, NULL);
}

void sim_schedule_begin_wait(void)
{
    sim_monitor_lock();
    ++waits;
    demanded = atomic_load(&tickets);
    sim_monitor_wake_and_unlock();
}

void sim_schedule_end_wait(void)
{
    sim_monitor_lock();
    --waits;
    sim_monitor_unlock();
}

void sim_schedule_demand(void)
{
    if (atomic_load(&in_force) == WHEN_DEMANDED) {
        sim_monitor_lock();
        demanded = atomic_load(&tickets);
        sim_monitor_wake_and_unlock();
    }
}
