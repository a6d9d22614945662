/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations, copies and fills whose every byte is known. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"

enum { GUARD = 64, GUARD_BYTE = 0xC7 };

block *block_new(world *w, size_t bytes)
{
    for (int i = 0; i < MOST_BLOCKS; i++) {
        block *b = &w->blocks[i];
        if (b->device != NULL) {
            continue;
        }
        void *made = NULL;
        GOOD(w, aclrtMalloc(&made, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        b->device = made;
        b->bytes = bytes;
        b->stream = -1;
        b->expected = malloc(bytes);
        fill(w, b->expected, bytes);
        block_upload(w, b);
        return b;
    }
    fuzz_failed(w, "the table of blocks is full");
}

void memory_room(world *w, int blocks)
{
    int room = 0;
    for (int i = 0; i < MOST_BLOCKS; i++) {
        room += w->blocks[i].device == NULL;
    }
    for (int i = (int)below(w, MOST_BLOCKS); room < blocks; i = (i + 1) % MOST_BLOCKS) {
        if (w->blocks[i].device != NULL) {
            block_free(w, &w->blocks[i]);
            room++;
        }
    }
}

void block_settle(world *w, block *b)
{
    if (b->stream >= 0) {
        GOOD(w, aclrtSynchronizeStream(w->streams[b->stream]));
        b->stream = -1;
    }
}

void block_use(world *w, block *b, int stream)
{
    if (b->stream >= 0 && b->stream != stream) {
        if (one_in(w, 2)) {
            block_settle(w, b);
        } else {
            const size_t e = below(w, EVENTS);
            GOOD(w, aclrtRecordEvent(w->events[e], w->streams[b->stream]));
            GOOD(w, aclrtStreamWaitEvent(w->streams[stream], w->events[e]));
            w->recorded[e] = true;
        }
    }
    b->stream = stream;
}

void block_upload(world *w, block *b)
{
    block_settle(w, b);
    GOOD(w, aclrtMemcpy(b->device, b->bytes, b->expected, b->bytes, ACL_MEMCPY_HOST_TO_DEVICE));
}

/* Host memory with guards on both sides, for builds that do not look themselves. */
static uint8_t *guarded(size_t bytes)
{
    uint8_t *all = malloc(bytes + 2 * GUARD);
    memset(all, GUARD_BYTE, bytes + 2 * GUARD);
    return all + GUARD;
}

static void guards_verify(const world *w, uint8_t *host, size_t bytes)
{
    for (size_t i = 0; i < GUARD; i++) {
        REQUIRE(w, host[-1 - (ptrdiff_t)i] == GUARD_BYTE && host[bytes + i] == GUARD_BYTE,
                "a byte beside a host buffer of %zu was written", bytes);
    }
    free(host - GUARD);
}

static void same(const world *w, const uint8_t *got, const uint8_t *expected, size_t bytes)
{
    size_t first = 0, wrong = 0;
    for (size_t i = bytes; i-- > 0;) {
        first = got[i] == expected[i] ? first : i;
        wrong += got[i] != expected[i];
    }
    REQUIRE(w, wrong == 0, "%zu of %zu bytes are wrong, the first is %zu: %#x, expected %#x", wrong, bytes, first, got[first],
            expected[first]);
}

void block_verify(world *w, block *b)
{
    uint8_t *host = guarded(b->bytes);
    if (b->stream >= 0 && one_in(w, 2)) {
        /* To pageable memory: it is there when the call returns. */
        GOOD(w, aclrtMemcpyAsync(host, b->bytes, b->device, b->bytes, ACL_MEMCPY_DEVICE_TO_HOST, w->streams[b->stream]));
    } else {
        block_settle(w, b);
        GOOD(w, aclrtMemcpy(host, b->bytes, b->device, b->bytes,
                            one_in(w, 2) ? ACL_MEMCPY_DEVICE_TO_HOST : ACL_MEMCPY_DEFAULT));
    }
    same(w, host, b->expected, b->bytes);
    guards_verify(w, host, b->bytes);
}

void block_free(world *w, block *b)
{
    block_settle(w, b);
    block_verify(w, b);
    GOOD(w, aclrtFree(b->device));
    remember_stale(w, b->device);
    free(b->expected);
    b->device = b->expected = NULL;
}

static block *some_block(world *w)
{
    block *b = &w->blocks[below(w, MOST_BLOCKS)];
    return b->device == NULL ? block_new(w, 1 + below(w, one_in(w, 8) ? 1 << 17 : 1 << 11)) : b;
}

static void write_step(world *w)
{
    block *b = some_block(w);
    const size_t at = below(w, b->bytes);
    const size_t count = 1 + below(w, b->bytes - at);
    const int s = (int)below(w, STREAMS);
    if (count <= PIN_BYTES && one_in(w, 2)) {
        GOOD(w, aclrtSynchronizeStream(w->streams[s])); /* the pinned buffer may still be in use */
        block_use(w, b, s);
        fill(w, w->pinned[s], count);
        memcpy(b->expected + at, w->pinned[s], count);
        GOOD(w, aclrtMemcpyAsync(b->device + at, b->bytes - at, w->pinned[s], count, ACL_MEMCPY_HOST_TO_DEVICE,
                                 w->streams[s]));
        return;
    }
    uint8_t *host = guarded(count);
    fill(w, host, count);
    memcpy(b->expected + at, host, count);
    if (one_in(w, 2)) {
        block_use(w, b, s);
        GOOD(w, aclrtMemcpyAsync(b->device + at, count, host, count,
                                 one_in(w, 2) ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE,
                                 w->streams[s]));
    } else {
        block_settle(w, b);
        GOOD(w, aclrtMemcpy(b->device + at, b->bytes - at, host, count, ACL_MEMCPY_HOST_TO_DEVICE));
    }
    guards_verify(w, host, count);
}

static void fill_step(world *w)
{
    block *b = some_block(w);
    const size_t at = below(w, b->bytes);
    const size_t count = 1 + below(w, b->bytes - at);
    const int value = (int)below(w, 256);
    const int s = (int)below(w, STREAMS);
    if (one_in(w, 2)) {
        block_use(w, b, s);
        GOOD(w, aclrtMemsetAsync(b->device + at, b->bytes - at, value, count, w->streams[s]));
    } else {
        block_settle(w, b);
        GOOD(w, aclrtMemset(b->device + at, count, value, count));
    }
    memset(b->expected + at, value, count);
}

static void copy_step(world *w)
{
    block *to = some_block(w);
    block *from = some_block(w);
    if (to == from) {
        return;
    }
    const size_t most = to->bytes < from->bytes ? to->bytes : from->bytes;
    const size_t count = 1 + below(w, most);
    const size_t at = below(w, to->bytes - count + 1);
    const size_t source = below(w, from->bytes - count + 1);
    const int s = (int)below(w, STREAMS);
    if (one_in(w, 2)) {
        block_use(w, to, s);
        block_use(w, from, s);
        GOOD(w, aclrtMemcpyAsync(to->device + at, count, from->device + source, count, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                 w->streams[s]));
    } else {
        block_settle(w, to);
        block_settle(w, from);
        GOOD(w, aclrtMemcpy(to->device + at, to->bytes - at, from->device + source, count, ACL_MEMCPY_DEVICE_TO_DEVICE));
    }
    memcpy(to->expected + at, from->expected + source, count);
}

static void copy_rows_step(world *w)
{
    block *b = some_block(w);
    const size_t width = 1 + below(w, b->bytes);
    const size_t pitch = width + below(w, 16);
    const size_t height = 1 + (b->bytes - width) / pitch;
    const size_t host_pitch = width + below(w, 16);
    const size_t bytes = host_pitch * (height - 1) + width;
    uint8_t *host = guarded(bytes);
    fill(w, host, bytes);
    block_settle(w, b);
    GOOD(w, aclrtMemcpy2d(b->device, pitch, host, host_pitch, width, height, ACL_MEMCPY_HOST_TO_DEVICE));
    for (size_t row = 0; row < height; row++) {
        memcpy(b->expected + row * pitch, host + row * host_pitch, width);
    }
    guards_verify(w, host, bytes);
}

/* What reaches past an allocation, and past what its size is rounded up to, is refused and moves nothing. */
static void beyond_step(world *w)
{
    enum { ROUNDING = 64 };
    block *b = some_block(w);
    const size_t count = 1 + below(w, b->bytes);
    uint8_t *from = b->device + b->bytes - count + ROUNDING + 1;
    uint8_t *host = guarded(count);
    block_settle(w, b);
    REQUIRE(w, ANY(w, aclrtMemcpy(from, count, host, count, ACL_MEMCPY_HOST_TO_DEVICE)) != 0, "a write past the end");
    REQUIRE(w, ANY(w, aclrtMemcpy(host, count, from, count, ACL_MEMCPY_DEVICE_TO_HOST)) != 0, "a read past the end");
    REQUIRE(w, ANY(w, aclrtMemset(from, count, 1, count)) != 0, "a fill past the end");
    REQUIRE(w, ANY(w, aclrtFree(b->device + 1 + below(w, b->bytes))) != 0, "freed by an address inside");
    guards_verify(w, host, count);
}

void memory_step(world *w)
{
    static void (*const steps[])(world *) = {write_step, fill_step, copy_step, copy_rows_step, beyond_step};
    if (one_in(w, 5)) {
        block *b = some_block(w);
        one_in(w, 4) ? block_free(w, b) : block_verify(w, b);
    } else {
        steps[below(w, sizeof steps / sizeof steps[0])](w);
    }
}

void memory_close(world *w)
{
    for (int i = 0; i < MOST_BLOCKS; i++) {
        if (w->blocks[i].device != NULL) {
            block_free(w, &w->blocks[i]);
        }
    }
}
