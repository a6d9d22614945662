/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/device_copy.h"

#include <string.h>

#include "core/checks.h"
#include "core/memory.h"
#include "core/shadow.h"
#include "opapi/device_check.h"

static const void *as_pointer(uint64_t address)
{
    return (const void *)(uintptr_t)address;
}

void device_note(const op_operand_place *of, uint64_t address, uint64_t bytes, sim_touch touch)
{
    if (of->window.bytes == 0 && !of->is_copy) {
        sim_footprint_note(of->name, as_pointer(address), bytes, touch);
    }
}

static void *resolve(const op_operand_place *of, uint64_t address, uint64_t bytes)
{
    const uint64_t offset = address - of->window.start;

    if (offset < of->window.bytes && bytes <= of->window.bytes - offset) {
        return of->window.host + offset;
    }
    return sim_memory_resolve(as_pointer(address), bytes);
}

/* Where the bytes lie; NULL on a fault. */
static const void *readable(const op_operand_place *of, uint64_t address, uint64_t bytes)
{
    device_check_bounds(of, address, bytes, SIM_READ);
    return resolve(of, address, bytes);
}

/* The same; the range may turn out not to be for writing. */
static void *writable(const op_operand_place *of, uint64_t address, uint64_t bytes, bool *is_allowed)
{
    *is_allowed = device_check_bounds(of, address, bytes, SIM_WRITE);
    return resolve(of, address, bytes);
}

bool device_read_row(const op_operand_place *of, uint64_t address, void *value, size_t bytes, bool is_in_place)
{
    const void *place = readable(of, address, bytes);

    if (place == NULL) {
        return false;
    }
    if (sim_checking(SIM_CHECK_INIT)) {
        device_check_written(of, address, bytes);
    }
    memcpy(value, place, bytes);
    device_note(of, address, bytes, is_in_place ? SIM_READS_FIRST : SIM_READS);
    return true;
}

bool device_read(const op_operand_place *of, uint64_t address, void *value, size_t bytes)
{
    return device_read_row(of, address, value, bytes, false);
}

bool device_write(const op_operand_place *of, uint64_t address, const void *value, size_t bytes)
{
    bool is_allowed;
    void *place = writable(of, address, bytes, &is_allowed);

    if (place == NULL || !is_allowed) {
        return place != NULL;
    }
    memcpy(place, value, bytes);
    device_note(of, address, bytes, SIM_WRITES);
    if (sim_checking(SIM_CHECK_INIT)) {
        sim_shadow_write(as_pointer(address), bytes);
    }
    return true;
}

/* Copies carry on what was never written; a use of it is reported. */
typedef enum { COPY, USE } purpose;

/* Source and target may be the same memory: nothing forbids a key that is a slice of the cache. */
static bool move_block(const device_run *to, const device_run *from, uint64_t offset, uint64_t bytes, purpose why)
{
    const uint64_t target_address = to->address + offset * to->step;
    const uint64_t source_address = from->address + offset * from->step;
    /* Copies of whole views run before and behind the kernel; and a row that stays where it is may be read any time. */
    const bool is_first = why == COPY || source_address == target_address;
    bool is_allowed;
    const void *source = readable(from->of, source_address, bytes);
    void *target = writable(to->of, target_address, bytes, &is_allowed);

    if (source == NULL || target == NULL) {
        return false;
    }
    if (sim_checking(SIM_CHECK_INIT) && why == USE) {
        device_check_written(from->of, source_address, bytes);
    }
    if (!is_allowed) {
        return true;
    }
    memmove(target, source, bytes);
    device_note(from->of, source_address, bytes, is_first ? SIM_READS_FIRST : SIM_READS);
    device_note(to->of, target_address, bytes, SIM_WRITES);
    if (sim_checking(SIM_CHECK_INIT)) {
        sim_shadow_copy(as_pointer(target_address), as_pointer(source_address), bytes);
    }
    return true;
}

static bool move(const device_run *to, const device_run *from, uint64_t count, purpose why)
{
    const size_t item_bytes = from->of->item_bytes;

    if (count == 0) {
        return true;
    }
    if (count == 1 || (to->step == item_bytes && from->step == item_bytes)) {
        return move_block(to, from, 0, count * item_bytes, why);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!move_block(to, from, i, item_bytes, why)) {
            return false;
        }
    }
    return true;
}

bool device_move(const device_run *to, const device_run *from, uint64_t count)
{
    return move(to, from, count, USE);
}

/* The first of the rows where all of them lie in the allocation that is known already, upwards; else NULL. */
static unsigned char *inside(const device_rows *at, uint64_t rows, uint64_t row_bytes)
{
    const op_window *window = &at->first.of->window;
    const uint64_t offset = at->first.address - window->start;

    if (offset >= window->bytes || row_bytes > window->bytes - offset) {
        return NULL;
    }
    const uint64_t left = window->bytes - offset - row_bytes;
    return at->next == 0 || rows - 1 <= left / at->next ? window->host + offset : NULL;
}

/* A scale needs no call: there are as many of them as of rows. */
static void copy_row(unsigned char *target, const unsigned char *source, uint64_t bytes)
{
    if (bytes == sizeof(float)) {
        memmove(target, source, sizeof(float));
    } else {
        memmove(target, source, bytes);
    }
}

static bool is_dense(const device_rows *rows, size_t item_bytes, uint64_t count)
{
    return count == 1 || rows->first.step == item_bytes;
}

bool device_move_rows(const device_rows *to, const device_rows *from, uint64_t rows, uint64_t count)
{
    const size_t item_bytes = from->first.of->item_bytes;
    const uint64_t row_bytes = count * item_bytes;
    unsigned char *target = rows == 0 ? NULL : inside(to, rows, row_bytes);
    const unsigned char *source = rows == 0 ? NULL : inside(from, rows, row_bytes);

    if (target != NULL && source != NULL && is_dense(to, item_bytes, count) && is_dense(from, item_bytes, count)) {
        /* Rows of a slot are far apart: waiting for one after the other takes longer than all else. */
        for (uint64_t i = 0; i < rows; i++) {
            __builtin_prefetch(target + i * to->next, 1);
            __builtin_prefetch(target + i * to->next + row_bytes - 1, 1);
        }
        for (uint64_t i = 0; i < rows; i++) {
            copy_row(target + i * to->next, source + i * from->next, row_bytes);
        }
        return true;
    }
    device_rows next_to = *to;
    device_rows next_from = *from;
    for (uint64_t i = 0; i < rows; i++) {
        if (!device_move(&next_to.first, &next_from.first, count)) {
            return false;
        }
        next_to.first.address += to->next;
        next_from.first.address += from->next;
    }
    return true;
}

typedef struct {
    const op_operand_place *view;
    const op_operand_place *dense;
    bool into_dense;
    uint64_t next; /* address of the next dense element */
} view_walk;

/* Walks the axes from this one on; the last axis is one run. */
static bool walk(view_walk *state, uint64_t axis, uint64_t address)
{
    const sim_tensor *tensor = state->view->view;
    const size_t item_bytes = state->view->item_bytes;
    const bool is_run = axis + 1 >= tensor->rank;
    const uint64_t step = axis < tensor->rank ? state->view->strides[axis] * item_bytes : 0;
    const int64_t extent = axis < tensor->rank ? tensor->dims[axis] : 1;

    if (is_run) {
        const uint64_t count = extent > 0 ? (uint64_t)extent : 0;
        const device_run in_view = {state->view, address, step};
        const device_run in_dense = {state->dense, state->next, item_bytes};
        state->next += count * item_bytes;
        return state->into_dense ? move(&in_dense, &in_view, count, COPY) : move(&in_view, &in_dense, count, COPY);
    }
    for (int64_t i = 0; i < extent; i++) {
        if (!walk(state, axis + 1, address + (uint64_t)i * step)) {
            return false;
        }
    }
    return true;
}

bool device_view_to_dense(const op_operand_place *view, const op_operand_place *dense)
{
    view_walk state = {view, dense, true, dense->start};

    return walk(&state, 0, view->start);
}

bool device_dense_to_view(const op_operand_place *view, const op_operand_place *dense)
{
    view_walk state = {view, dense, false, dense->start};

    return walk(&state, 0, view->start);
}
