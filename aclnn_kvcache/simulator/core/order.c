/* SPDX-License-Identifier: Apache-2.0 */
#include "core/order.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/footprint.h"
#include "core/in_flight.h"
#include "core/race.h"

typedef struct {
    int open;
    uint64_t issued;  /* numbers go on where another stream took the agent over: it began when the other was done */
    uint64_t ended;
    sim_clock *clock; /* what its newest call that began comes after */
    sim_call *first;  /* that did not end */
    sim_call *last;
} agent;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static agent *agents; /* the host's is the first */
static size_t agent_count;
static size_t agent_capacity;
static uint64_t sequence;
static unsigned watch;

static _Thread_local sim_call *current;

void sim_order_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_order_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* With the lock. An order that could not be kept must not become an alarm. */
static void forget_all(void)
{
    ++watch;
    sim_race_forget_all();
    sim_in_flight_forget_all();
}

void sim_order_restart(void)
{
    sim_order_lock();
    forget_all();
    sim_order_unlock();
}

static void learn(sim_clock **clock, sim_clock *other)
{
    if (!sim_clock_learn(clock, other)) {
        forget_all();
    }
}

static void advance(sim_clock **clock, size_t index, uint64_t number)
{
    if (!sim_clock_advance(clock, index, number)) {
        forget_all();
    }
}

sim_call *sim_call_share(sim_call *call)
{
    ++call->references;
    return call;
}

void sim_call_drop(sim_call *call)
{
    if (--call->references == 0) {
        sim_clock_drop(call->clock);
        free(call);
    }
}

int sim_call_before(const sim_call *call, const sim_call *other)
{
    return call->agent == other->agent ? call->at < other->at
                                       : sim_clock_seen(other->clock, call->agent) >= call->at;
}

int sim_call_awaited(const sim_call *call)
{
    return call->agent == SIM_HOST_AGENT || sim_clock_seen(agents[SIM_HOST_AGENT].clock, call->agent) >= call->at;
}

int sim_call_watched(const sim_call *call)
{
    return call->watch == watch;
}

/* With the lock. 0 when the host has no memory. */
static int make_room(void)
{
    if (agent_count < agent_capacity) {
        return 1;
    }
    const size_t capacity = agent_capacity == 0 ? 16 : 2 * agent_capacity;
    agent *more = realloc(agents, capacity * sizeof *more);
    if (more == NULL) {
        return 0;
    }
    agents = more;
    agent_capacity = capacity;
    return 1;
}

/* With the lock. The host's is opened with the first of another. */
static size_t open_agent(void)
{
    for (size_t i = 0; i < agent_count; ++i) {
        if (!agents[i].open) {
            agents[i].open = 1;
            return i;
        }
    }
    if (!make_room()) {
        return SIM_HOST_AGENT;
    }
    agents[agent_count] = (agent){.open = 1};
    return agent_count++;
}

/* With the lock. */
static int open_host(void)
{
    return agent_count > 0 || (open_agent() == SIM_HOST_AGENT && agent_count > 0);
}

size_t sim_order_open(void)
{
    sim_order_lock();
    const size_t opened = open_host() ? open_agent() : SIM_HOST_AGENT;
    sim_order_unlock();
    return opened;
}

/* With the lock. */
static void host_after(size_t index)
{
    learn(&agents[SIM_HOST_AGENT].clock, agents[index].clock);
    advance(&agents[SIM_HOST_AGENT].clock, index, agents[index].ended);
    sim_race_prune();
    sim_in_flight_prune();
}

void sim_order_host_after(size_t index)
{
    if (index != SIM_HOST_AGENT && sim_order_watched()) {
        sim_order_lock();
        host_after(index);
        sim_order_unlock();
    }
}

void sim_order_close(size_t index)
{
    if (index != SIM_HOST_AGENT) {
        sim_order_lock();
        agents[index].open = 0;
        sim_order_unlock();
    }
}

/* With the lock; what the host knows comes before it. NULL when the host has no memory. */
static sim_call *new_call(size_t index, const char *function)
{
    sim_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        forget_all();
        return NULL;
    }
    call->references = 1;
    call->function = function;
    call->sequence = ++sequence;
    call->watch = watch;
    call->agent = index;
    call->at = ++agents[index].issued;
    call->clock = sim_clock_share(agents[SIM_HOST_AGENT].clock);
    return call;
}

sim_call *sim_order_queue(size_t index, const char *function, int32_t device, int32_t stream, uint64_t number,
    uint32_t thread)
{
    if (index == SIM_HOST_AGENT || !sim_order_watched()) {
        return NULL;
    }
    sim_order_lock();
    sim_call *call = new_call(index, function);
    if (call != NULL) {
        call->device = device;
        call->stream = stream;
        call->number = number;
        call->thread = thread;
        agent *a = &agents[index];
        *(a->last == NULL ? &a->first : &a->last->next) = call;
        a->last = call;
    }
    sim_order_unlock();
    return call;
}

void sim_order_begin(sim_call *call)
{
    if (call == NULL) {
        return;
    }
    sim_order_lock();
    learn(&agents[call->agent].clock, call->clock);
    learn(&call->clock, agents[call->agent].clock);
    sim_order_unlock();
    current = call;
    sim_footprint_begin();
}

void sim_order_end(sim_call *call)
{
    if (call == NULL) {
        return;
    }
    sim_footprint_end(call);
    current = NULL;
    sim_order_lock();
    agent *a = &agents[call->agent];
    a->ended = call->at;
    a->first = call->next;
    if (a->first == NULL) {
        a->last = NULL;
    }
    sim_call_drop(call);
    sim_order_unlock();
}

sim_call *sim_order_host_begin(const char *function)
{
    if (!sim_order_watched()) {
        return NULL;
    }
    sim_order_lock();
    sim_call *call = open_host() ? new_call(SIM_HOST_AGENT, function) : NULL;
    if (call != NULL) {
        call->is_host = 1;
        call->device = call->stream = -1;
        call->thread = (uint32_t)gettid();
    }
    sim_order_unlock();
    current = call;
    if (call != NULL) {
        sim_footprint_begin();
    }
    return call;
}

void sim_order_host_end(sim_call *call)
{
    if (call == NULL) {
        return;
    }
    sim_footprint_end(call);
    current = NULL;
    sim_order_lock();
    advance(&agents[SIM_HOST_AGENT].clock, SIM_HOST_AGENT, call->at);
    sim_call_drop(call);
    sim_order_unlock();
}

sim_call *sim_order_current(void)
{
    return current;
}

sim_clock *sim_order_mark(void)
{
    if (current == NULL) {
        return NULL;
    }
    sim_order_lock();
    sim_clock *mark = sim_clock_share(current->clock);
    advance(&mark, current->agent, current->at);
    sim_order_unlock();
    return mark;
}

void sim_order_after_mark(sim_clock *mark)
{
    if (mark == NULL || current == NULL) {
        return;
    }
    sim_order_lock();
    learn(&current->clock, mark);
    learn(&agents[current->agent].clock, mark);
    sim_order_unlock();
}

void sim_order_host_after_mark(sim_clock *mark)
{
    if (mark == NULL) {
        return;
    }
    sim_order_lock();
    learn(&agents[SIM_HOST_AGENT].clock, mark);
    sim_race_prune();
    sim_in_flight_prune();
    sim_order_unlock();
}

int sim_order_host_knows_mark(sim_clock *mark)
{
    sim_order_lock();
    const int knows = agent_count > 0 && sim_clock_has_seen(agents[SIM_HOST_AGENT].clock, mark);
    sim_order_unlock();
    return knows;
}

void sim_order_drop_mark(sim_clock *mark)
{
    if (mark != NULL) {
        sim_order_lock();
        sim_clock_drop(mark);
        sim_order_unlock();
    }
}

sim_clock *sim_order_floor(void)
{
    sim_clock *floor = sim_clock_share(agents[SIM_HOST_AGENT].clock);
    for (size_t i = 1; i < agent_count; ++i) {
        const agent *a = &agents[i];
        if (a->first != NULL) {
            sim_clock *next = sim_clock_share(a->clock);
            learn(&next, a->first->clock);
            advance(&next, i, a->ended);
            if (!sim_clock_lower(&floor, next)) {
                sim_clock_drop(floor);
                floor = NULL;
            }
            sim_clock_drop(next);
        }
    }
    return floor;
}
