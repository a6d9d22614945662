/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/device_copy.h"

#include <string.h>

#include "core/memory.h"
#include "opapi/op_tensor.h"

static void *resolve(uint64_t address, uint64_t bytes)
{
    return sim_memory_resolve((const void *)(uintptr_t)address, bytes);
}

bool device_read(uint64_t address, void *value, size_t bytes)
{
    const void *place = resolve(address, bytes);

    if (place == NULL) {
        return false;
    }
    memcpy(value, place, bytes);
    return true;
}

bool device_write(uint64_t address, const void *value, size_t bytes)
{
    void *place = resolve(address, bytes);

    if (place == NULL) {
        return false;
    }
    memcpy(place, value, bytes);
    return true;
}

/* Source and target may be the same memory: nothing forbids a key that is a slice of the cache. */
static bool move_block(uint64_t to, uint64_t from, uint64_t bytes)
{
    const void *source = resolve(from, bytes);
    void *target = resolve(to, bytes);

    if (source == NULL || target == NULL) {
        return false;
    }
    memmove(target, source, bytes);
    return true;
}

bool device_move(device_run to, device_run from, uint64_t count, size_t item_bytes)
{
    if (count == 0) {
        return true;
    }
    if (count == 1 || (to.step == item_bytes && from.step == item_bytes)) {
        return move_block(to.address, from.address, count * item_bytes);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!move_block(to.address + i * to.step, from.address + i * from.step, item_bytes)) {
            return false;
        }
    }
    return true;
}

typedef struct {
    const sim_tensor *view;
    size_t item_bytes;
    bool into_dense;
    uint64_t dense; /* address of the next dense element */
} view_walk;

/* Walks the axes from this one on; the last axis is one run. */
static bool walk(view_walk *state, uint64_t axis, uint64_t address)
{
    const bool is_run = axis + 1 >= state->view->rank;
    const uint64_t step = axis < state->view->rank ? (uint64_t)state->view->strides[axis] * state->item_bytes : 0;
    const int64_t extent = axis < state->view->rank ? state->view->dims[axis] : 1;

    if (is_run) {
        const uint64_t count = extent > 0 ? (uint64_t)extent : 0;
        const device_run in_view = {address, step};
        const device_run in_dense = {state->dense, state->item_bytes};
        state->dense += count * state->item_bytes;
        return state->into_dense ? device_move(in_dense, in_view, count, state->item_bytes)
                                 : device_move(in_view, in_dense, count, state->item_bytes);
    }
    for (int64_t i = 0; i < extent; i++) {
        if (!walk(state, axis + 1, address + (uint64_t)i * step)) {
            return false;
        }
    }
    return true;
}

bool device_view_to_dense(const sim_tensor *view, uint64_t view_start, uint64_t dense_start)
{
    view_walk state = {view, op_tensor_item_bytes(view), true, dense_start};

    return walk(&state, 0, view_start);
}

bool device_dense_to_view(const sim_tensor *view, uint64_t view_start, uint64_t dense_start)
{
    view_walk state = {view, op_tensor_item_bytes(view), false, dense_start};

    return walk(&state, 0, view_start);
}
