/* SPDX-License-Identifier: Apache-2.0 */
#include "core/order.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/agent.h"
#include "core/footprint.h"
#include "core/in_flight.h"
#include "core/race.h"

static uint64_t sequence; /* with the lock */
static _Thread_local sim_call *current; /* that this thread is in */

/* With the lock. */
static void host_after(size_t index)
{
    sim_agent_learn(&sim_agent_at(SIM_HOST_AGENT)->clock, sim_agent_at(index)->clock);
    sim_agent_advance(&sim_agent_at(SIM_HOST_AGENT)->clock, index, sim_agent_at(index)->ended);
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

/* With the lock; what the host knows comes before it. NULL when the host has no memory. */
static sim_call *new_call(size_t index, const char *function)
{
    sim_call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        sim_agents_forget_calls();
        return NULL;
    }
    call->references = 1;
    call->function = function;
    call->sequence = ++sequence;
    call->watch = sim_agents_watch();
    call->agent = index;
    call->at = ++sim_agent_at(index)->issued;
    call->clock = sim_clock_share(sim_agent_at(SIM_HOST_AGENT)->clock);
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
        sim_agent *a = sim_agent_at(index);
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
    sim_agent_learn(&sim_agent_at(call->agent)->clock, call->clock);
    sim_agent_learn(&call->clock, sim_agent_at(call->agent)->clock);
    sim_order_unlock();
    current = call;
    sim_footprint_begin();
}

void sim_order_end(sim_call *call, int is_cut)
{
    if (call == NULL) {
        return;
    }
    current = NULL;
    sim_order_lock();
    sim_footprint_end(call);
    sim_agent *a = sim_agent_at(call->agent);
    a->ended = call->at;
    call->is_cut = is_cut;
    a->first = call->next;
    if (a->first == NULL) {
        a->last = NULL;
    }
    sim_call_drop(call);
    sim_order_unlock();
}

sim_call *sim_order_host_begin(const char *function)
{
    if (!sim_order_watched() || current != NULL) {
        return NULL;
    }
    sim_order_lock();
    sim_call *call = sim_agents_open_host() ? new_call(SIM_HOST_AGENT, function) : NULL;
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
    current = NULL;
    sim_order_lock();
    sim_footprint_end(call);
    sim_agent_advance(&sim_agent_at(SIM_HOST_AGENT)->clock, SIM_HOST_AGENT, call->at);
    sim_call_drop(call);
    sim_order_unlock();
}

sim_clock *sim_order_mark(void)
{
    if (current == NULL) {
        return NULL;
    }
    sim_order_lock();
    sim_clock *mark = sim_clock_share(current->clock);
    sim_agent_advance(&mark, current->agent, current->at);
    sim_order_unlock();
    return mark;
}

void sim_order_after_mark(sim_clock *mark)
{
    if (mark == NULL || current == NULL) {
        return;
    }
    sim_order_lock();
    sim_agent_learn(&current->clock, mark);
    sim_agent_learn(&sim_agent_at(current->agent)->clock, mark);
    sim_order_unlock();
}

void sim_order_host_after_mark(sim_clock *mark)
{
    if (mark == NULL) {
        return;
    }
    sim_order_lock();
    sim_agent_learn(&sim_agent_at(SIM_HOST_AGENT)->clock, mark);
    sim_race_prune();
    sim_in_flight_prune();
    sim_order_unlock();
}

int sim_order_host_knows_mark(sim_clock *mark)
{
    sim_order_lock();
    const int knows = sim_agents_open_host() && sim_clock_has_seen(sim_agent_at(SIM_HOST_AGENT)->clock, mark);
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
