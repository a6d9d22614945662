/* SPDX-License-Identifier: Apache-2.0 */
#include "core/agent.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/in_flight.h"
#include "core/race.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static sim_agent *agents; /* the host's is the first */
static size_t agent_count;
static size_t agent_capacity;
static unsigned watch;

void sim_order_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_order_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

sim_agent *sim_agent_at(size_t index)
{
    return &agents[index];
}

unsigned sim_agents_watch(void)
{
    return watch;
}

void sim_agents_forget_calls(void)
{
    ++watch;
    sim_race_forget_all();
    sim_in_flight_forget_all();
}

void sim_order_restart(void)
{
    sim_order_lock();
    sim_agents_forget_calls();
    sim_order_unlock();
}

void sim_agent_learn(sim_clock **clock, sim_clock *other)
{
    if (!sim_clock_learn(clock, other)) {
        sim_agents_forget_calls();
    }
}

void sim_agent_advance(sim_clock **clock, size_t index, uint64_t number)
{
    if (!sim_clock_advance(clock, index, number)) {
        sim_agents_forget_calls();
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

int sim_call_ended(const sim_call *call)
{
    return agents[call->agent].ended >= call->at && !call->is_cut;
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
    sim_agent *more = realloc(agents, capacity * sizeof *more);
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
    agents[agent_count] = (sim_agent){.open = 1};
    return agent_count++;
}

int sim_agents_open_host(void)
{
    return agent_count > 0 || (open_agent() == SIM_HOST_AGENT && agent_count > 0);
}

size_t sim_order_open(void)
{
    sim_order_lock();
    const size_t opened = sim_agents_open_host() ? open_agent() : SIM_HOST_AGENT;
    sim_order_unlock();
    return opened;
}

void sim_order_close(size_t index)
{
    if (index != SIM_HOST_AGENT) {
        sim_order_lock();
        agents[index].open = 0;
        sim_order_unlock();
    }
}

sim_clock *sim_order_floor(void)
{
    sim_clock *floor = sim_clock_share(agents[SIM_HOST_AGENT].clock);
    for (size_t i = 1; i < agent_count; ++i) {
        const sim_agent *a = &agents[i];
        if (a->first != NULL) {
            sim_clock *next = sim_clock_share(a->clock);
            sim_agent_learn(&next, a->first->clock);
            sim_agent_advance(&next, i, a->ended);
            if (!sim_clock_lower(&floor, next)) {
                sim_clock_drop(floor);
                floor = NULL;
            }
            sim_clock_drop(next);
        }
    }
    return floor;
}
