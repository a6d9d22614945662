/* SPDX-License-Identifier: Apache-2.0 */
#include "core/waits.h"

#include <stddef.h>

#include "core/checks.h"
#include "core/monitor.h"

#define MOST_HOPS 64 /* streams that wait for each other end nowhere */

static sim_wait *waits;

void sim_waits_begin(sim_wait *wait)
{
    wait->next = waits;
    waits = wait;
}

void sim_waits_end(sim_wait *wait)
{
    sim_wait **place = &waits;
    while (*place != wait) {
        place = &(*place)->next;
    }
    *place = wait->next;
}

static sim_wait *of_stream(const sim_stream *stream)
{
    sim_wait *wait = waits;
    while (wait != NULL && wait->stream != stream) {
        wait = wait->next;
    }
    return wait;
}

/* From stream to stream, each of which waits for what the next is to record, to the wait for what nobody recorded. */
static sim_wait *last(const sim_stream *stream)
{
    for (int hops = 0; hops < MOST_HOPS; ++hops) {
        sim_wait *wait = of_stream(stream);
        if (wait == NULL || !wait->record->called) {
            return wait;
        }
        stream = wait->record->stream;
    }
    return NULL;
}

void sim_waits_report(const char *function, const sim_stream *stream)
{
    sim_wait *wait = last(stream);
    if (wait == NULL || wait->is_told) {
        return;
    }
    wait->is_told = 1;
    sim_report(SIM_CHECK_SYNC, "wait_without_record", function,
        "stream %d of device %d waits for event %u (%p), which was never recorded, and the host waits for that; unless "
        "another thread records it, for ever: record it before the wait is queued",
        sim_stream_id(wait->stream), sim_stream_device(wait->stream), wait->event->id, wait->event->handle);
}

struct timespec sim_waits_patience(const struct timespec *deadline)
{
    const struct timespec patience = sim_deadline(SIM_PATIENCE_MS);
    const int is_earlier = deadline != NULL && (deadline->tv_sec < patience.tv_sec ||
        (deadline->tv_sec == patience.tv_sec && deadline->tv_nsec < patience.tv_nsec));
    return is_earlier ? *deadline : patience;
}
