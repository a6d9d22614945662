/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the good device. */
#include "fuzz.h"

static void open_stream(world *w, int s)
{
    void *pinned = NULL;
    GOOD(w, aclrtCreateStream(&w->streams[s]));
    GOOD(w, aclrtMallocHost(&pinned, PIN_BYTES));
    w->pinned[s] = pinned;
}

static void close_stream(world *w, int s)
{
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (w->blocks[i].device != NULL && w->blocks[i].stream == s) {
            block_settle(w, &w->blocks[i]);
        }
    }
    GOOD(w, aclrtSynchronizeStream(w->streams[s]));
    GOOD(w, aclrtDestroyStream(w->streams[s]));
    GOOD(w, aclrtFreeHost(w->pinned[s]));
    remember_stale(w, w->streams[s]);
}

static void open_event(world *w, size_t e)
{
    GOOD(w, aclrtCreateEventWithFlag(&w->events[e], ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    w->recorded[e] = false;
}

static void close_event(world *w, size_t e)
{
    GOOD(w, aclrtDestroyEvent(w->events[e]));
    remember_stale(w, w->events[e]);
}

void streams_open(world *w)
{
    for (int s = 0; s < STREAMS; s++) {
        open_stream(w, s);
    }
    for (size_t e = 0; e < EVENTS; e++) {
        open_event(w, e);
    }
}

void streams_close(world *w)
{
    for (int s = 0; s < STREAMS; s++) {
        close_stream(w, s);
    }
    for (size_t e = 0; e < EVENTS; e++) {
        close_event(w, e);
    }
}

static void await_event(world *w, size_t e)
{
    aclrtEventRecordedStatus status;
    GOOD(w, aclrtSynchronizeEvent(w->events[e]));
    GOOD(w, aclrtQueryEventStatus(w->events[e], &status));
    REQUIRE(w, !w->recorded[e] || status == ACL_EVENT_RECORDED_STATUS_COMPLETE, "an awaited event is not complete");
}

void stream_step(world *w)
{
    const int s = (int)below(w, STREAMS);
    const size_t e = below(w, EVENTS);
    aclrtStreamStatus status;
    float milliseconds;
    switch (below(w, 8)) {
    case 0:
        close_stream(w, s);
        open_stream(w, s);
        break;
    case 1:
        GOOD(w, aclrtSynchronizeStream(w->streams[s]));
        GOOD(w, aclrtStreamQuery(w->streams[s], &status));
        REQUIRE(w, status == ACL_STREAM_STATUS_COMPLETE, "an awaited stream has work");
        break;
    case 2:
        GOOD(w, aclrtRecordEvent(w->events[e], w->streams[s]));
        w->recorded[e] = true;
        break;
    case 3:
        if (w->recorded[e]) { /* else the stream waits for the record */
            GOOD(w, aclrtStreamWaitEvent(w->streams[s], w->events[e]));
        }
        break;
    case 4:
        await_event(w, e);
        break;
    case 5:
        close_event(w, e);
        open_event(w, e);
        break;
    case 6:
        (void)ANY(w, aclrtEventElapsedTime(&milliseconds, w->events[e], w->events[below(w, EVENTS)]));
        break;
    default:
        GOOD(w, aclrtSynchronizeDevice());
        for (int i = 0; i < MOST_BLOCKS; i++) {
            w->blocks[i].stream = -1;
        }
    }
}
