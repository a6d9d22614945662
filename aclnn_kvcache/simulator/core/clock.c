/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"

#include <stdlib.h>
#include <string.h>

struct sim_clock {
    size_t references;
    size_t agents;
    uint64_t seen[];
};

sim_clock *sim_clock_share(sim_clock *clock)
{
    if (clock != NULL) {
        ++clock->references;
    }
    return clock;
}

void sim_clock_drop(sim_clock *clock)
{
    if (clock != NULL && --clock->references == 0) {
        free(clock);
    }
}

uint64_t sim_clock_seen(const sim_clock *clock, size_t agent)
{
    return clock != NULL && agent < clock->agents ? clock->seen[agent] : 0;
}

static size_t agents_of(const sim_clock *clock)
{
    return clock == NULL ? 0 : clock->agents;
}

/* Makes the clock one that nobody else holds, with room for so many agents. */
static int own(sim_clock **clock, size_t agents)
{
    const size_t before = agents_of(*clock);
    agents = agents > before ? agents : before;
    if (*clock != NULL && (*clock)->references == 1 && agents == before) {
        return 1;
    }
    sim_clock *copy = calloc(1, sizeof *copy + agents * sizeof copy->seen[0]);
    if (copy == NULL) {
        return 0;
    }
    copy->references = 1;
    copy->agents = agents;
    if (before != 0) {
        memcpy(copy->seen, (*clock)->seen, before * sizeof copy->seen[0]);
    }
    sim_clock_drop(*clock);
    *clock = copy;
    return 1;
}

int sim_clock_advance(sim_clock **clock, size_t agent, uint64_t number)
{
    if (sim_clock_seen(*clock, agent) >= number) {
        return 1;
    }
    if (!own(clock, agent + 1)) {
        return 0;
    }
    (*clock)->seen[agent] = number;
    return 1;
}

int sim_clock_has_seen(const sim_clock *clock, const sim_clock *other)
{
    for (size_t agent = 0; agent < agents_of(other); ++agent) {
        if (sim_clock_seen(clock, agent) < other->seen[agent]) {
            return 0;
        }
    }
    return 1;
}

int sim_clock_learn(sim_clock **clock, sim_clock *other)
{
    if (*clock == other || sim_clock_has_seen(*clock, other)) {
        return 1;
    }
    if (sim_clock_has_seen(other, *clock)) {
        sim_clock_drop(*clock);
        *clock = sim_clock_share(other);
        return 1;
    }
    if (!own(clock, agents_of(other))) {
        return 0;
    }
    for (size_t agent = 0; agent < other->agents; ++agent) {
        if (other->seen[agent] > (*clock)->seen[agent]) {
            (*clock)->seen[agent] = other->seen[agent];
        }
    }
    return 1;
}

int sim_clock_lower(sim_clock **clock, const sim_clock *other)
{
    if (*clock == other || sim_clock_has_seen(other, *clock)) {
        return 1;
    }
    if (!own(clock, 0)) {
        return 0;
    }
    for (size_t agent = 0; agent < (*clock)->agents; ++agent) {
        const uint64_t seen = sim_clock_seen(other, agent);
        if (seen < (*clock)->seen[agent]) {
            (*clock)->seen[agent] = seen;
        }
    }
    return 1;
}
