/* SPDX-License-Identifier: Apache-2.0 */
/* Runtime calls with handles, addresses, sizes and enum values of any kind. None can succeed in changing what is known
   of the good device: addresses are no live ones there, and streams and events only meet what they may. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"

static void *address(world *w)
{
    return (void *)(uintptr_t)wild_pointer(w);
}

static size_t odd_size(world *w)
{
    return (size_t)odd_number(w);
}

static void memory(world *w)
{
    uint8_t host[64] = {0};
    void *made = NULL;
    size_t free_bytes, total;
    aclrtPtrAttributes attributes;
    void *nowhere = address(w);
    switch (below(w, 12)) {
    case 0:
        if (ANY(w, aclrtMalloc(&made, odd_size(w), (aclrtMemMallocPolicy)between(w, -1, 8))) == 0) {
            GOOD(w, aclrtFree(made));
            remember_stale(w, made);
        }
        break;
    case 1:
        if (ANY(w, aclrtMallocHost(&made, one_in(w, 2) ? below(w, 4096) : 0)) == 0) {
            (void)ANY(w, aclrtFree(made)); /* of the other kind */
            GOOD(w, aclrtFreeHost(made));
        }
        break;
    case 2:
        (void)ANY(w, aclrtFree(nowhere));
        break;
    case 3:
        (void)ANY(w, aclrtFreeHost(one_in(w, 2) ? (void *)host : nowhere));
        break;
    case 4:
        (void)ANY(w, aclrtMemcpy(nowhere, odd_size(w), host, sizeof host, (aclrtMemcpyKind)between(w, -1, 9)));
        break;
    case 5:
        (void)ANY(w, aclrtMemcpy(host, below(w, 64), nowhere, odd_size(w) | 64, (aclrtMemcpyKind)between(w, -1, 9)));
        break;
    case 6:
        (void)ANY(w, aclrtMemcpyAsync(nowhere, odd_size(w), host, sizeof host, (aclrtMemcpyKind)between(w, -1, 9),
                                      w->streams[below(w, STREAMS)]));
        break;
    case 7:
        (void)ANY(w, aclrtMemset(nowhere, odd_size(w), (int32_t)any_bits(w), odd_size(w)));
        break;
    case 8:
        (void)ANY(w, aclrtMemcpy2d(nowhere, odd_size(w), host, odd_size(w), odd_size(w), odd_size(w),
                                   (aclrtMemcpyKind)between(w, -1, 5)));
        break;
    case 9:
        (void)ANY(w, aclrtGetMemInfo((aclrtMemAttr)between(w, -1, 20), &free_bytes, one_in(w, 8) ? NULL : &total));
        break;
    case 10:
        (void)ANY(w, aclrtPointerGetAttributes(nowhere, one_in(w, 8) ? NULL : &attributes));
        break;
    default:
        (void)ANY(w, aclrtMemsetAsync(nowhere, odd_size(w), 1, odd_size(w), (aclrtStream)address(w)));
    }
}

static void streams_and_events(world *w)
{
    const void *handle = one_in(w, 2) && w->stale_count > 0 ? w->stale[below(w, w->stale_count)] : NULL;
    aclrtStream stream = (aclrtStream)(uintptr_t)handle;
    aclrtEvent event = (aclrtEvent)(uintptr_t)handle;
    aclrtStreamStatus status;
    aclrtEventStatus event_status;
    float milliseconds;
    uint64_t stamp;
    switch (below(w, 11)) {
    case 0:
        (void)ANY(w, aclrtSynchronizeStreamWithTimeout(stream, (int32_t)between(w, -2, 5)));
        break;
    case 1:
        (void)ANY(w, aclrtStreamQuery(stream, one_in(w, 4) ? NULL : &status));
        break;
    case 2:
        (void)ANY(w, aclrtRecordEvent(event, w->streams[0]));
        break;
    case 3:
        (void)ANY(w, aclrtRecordEvent(w->streams[0], w->events[0])); /* the wrong way round */
        break;
    case 4:
        (void)ANY(w, aclrtStreamWaitEvent(w->streams[0], event));
        break;
    case 5:
        (void)ANY(w, aclrtDestroyEvent(event));
        break;
    case 6:
        (void)ANY(w, aclrtSynchronizeEvent(event));
        break;
    case 7:
        (void)ANY(w, aclrtQueryEvent(w->streams[0], &event_status));
        break;
    case 8:
        (void)ANY(w, aclrtEventElapsedTime(&milliseconds, event, w->events[0]));
        break;
    case 9:
        (void)ANY(w, aclrtEventGetTimestamp(w->events[0], one_in(w, 4) ? NULL : &stamp));
        break;
    default:
        if (stream != NULL) { /* NULL is the default stream */
            (void)ANY(w, aclrtDestroyStream(stream));
        }
    }
}

static void devices_and_contexts(world *w)
{
    aclrtContext own, other = NULL;
    int32_t device;
    int64_t value;
    uint32_t count;
    GOOD(w, aclrtGetCurrentContext(&own));
    (void)ANY(w, aclrtGetDeviceInfo((uint32_t)odd_number(w), (aclrtDevAttr)between(w, 0, 700), &value));
    (void)ANY(w, aclrtGetDeviceCount(one_in(w, 8) ? NULL : &count));
    (void)ANY(w, aclrtSetDevice(one_in(w, 2) ? -1 : 1000));
    (void)ANY(w, aclrtResetDevice(one_in(w, 2) ? -1 : 1000));
    (void)ANY(w, aclrtSetCurrentContext((aclrtContext)address(w)));
    if (ANY(w, aclrtCreateContext(&other, w->wild_device)) == 0) {
        (void)ANY(w, aclrtSynchronizeStream(w->streams[0])); /* of another context */
        (void)ANY(w, aclrtRecordEvent(w->events[0], w->streams[0]));
        (void)ANY(w, aclrtGetDevice(&device));
        GOOD(w, aclrtDestroyContext(other));
        (void)ANY(w, aclrtSetCurrentContext(other));
        (void)ANY(w, aclrtSynchronizeDevice());
    }
    GOOD(w, aclrtSetCurrentContext(own));
}

/* The text must be there to the end, and free of what terminals obey. */
static void messages(world *w)
{
    const char *text = aclGetRecentErrMsg();
    for (size_t i = 0; text != NULL && text[i] != 0; i++) {
        const unsigned char c = (unsigned char)text[i];
        REQUIRE(w, c >= ' ' || c == '\n' || c == '\t', "byte %#x in a message", c);
    }
}

void wild_runtime_step(world *w)
{
    static void (*const steps[])(world *) = {memory, streams_and_events, devices_and_contexts, messages};
    steps[below(w, sizeof steps / sizeof steps[0])](w);
}
