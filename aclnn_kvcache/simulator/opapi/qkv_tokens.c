/* SPDX-License-Identifier: Apache-2.0 */
/* Where each token goes and which position it has, with the kernel's own arithmetic on values that nobody checks
   (qkv_rms_norm_rope_cache_with_k_scale.md, 2.5). */
#include <stdlib.h>
#include <string.h>

#include "core/checks.h"
#include "core/memory.h"
#include "opapi/device_check.h"
#include "opapi/device_copy.h"
#include "opapi/op_tensor.h"
#include "opapi/qkv_work.h"

/* INT32 values in device memory, row by row; NULL bytes on a fault. */
typedef struct {
    const op_operand_place *of;
    const unsigned char *bytes;
    uint64_t count;
} vector;

static vector find_vector(const qkv_work *work, qkv_tensor tensor)
{
    const op_operand_place *of = &work->places[tensor];
    const sim_tensor *shape = &work->tensors[tensor];
    uint64_t bytes = sizeof(int32_t);
    bool fits = true;

    for (uint64_t axis = 0; axis < shape->rank; axis++) {
        fits = fits && !__builtin_mul_overflow(bytes, op_tensor_count(shape, axis), &bytes);
    }
    if (!fits) {
        return (vector){of, NULL, 0};
    }
    device_check_bounds(of, of->start, bytes, SIM_READ);
    return (vector){of, sim_memory_resolve((const void *)(uintptr_t)of->start, bytes), bytes / sizeof(int32_t)};
}

static int32_t entry(vector values, uint64_t index)
{
    const uint64_t address = values.of->start + index * sizeof(int32_t);
    int32_t value;

    device_note(values.of, address, sizeof value, SIM_READS);
    if (sim_checking(SIM_CHECK_INIT)) {
        device_check_written(values.of, address, sizeof value);
    }
    memcpy(&value, values.bytes + index * sizeof value, sizeof value);
    return value;
}

/* The kernel widens to unsigned 64 bits by the sign: negative numbers become huge. */
static uint64_t widened(vector values, uint64_t index)
{
    return (uint64_t)(int64_t)entry(values, index);
}

/* The first bad slot is reported here, for nobody else looks at them. */
static void report_slots(const qkv_work *work)
{
    const int64_t *cache = work->tensors[K_CACHE].dims;
    const uint64_t limit = (uint64_t)cache[0] * (uint64_t)cache[2];

    for (uint64_t t = 0; t < work->tokens; t++) {
        if ((uint64_t)work->slots[t] >= limit) {
            sim_report(SIM_CHECK_API, "slot_out_of_range", QKV_NAME,
                       "slot %lld of token %llu is outside the %llu slots of the caches; the kernel skips none: pass "
                       "slots from 0 to %lld",
                       (long long)work->slots[t], (unsigned long long)t, (unsigned long long)limit,
                       (long long)limit - 1);
            break;
        }
    }
}

bool qkv_read_slots(qkv_work *work)
{
    const vector mapping = find_vector(work, SLOT_MAPPING);

    work->slots = mapping.bytes == NULL ? NULL : calloc(work->tokens, sizeof *work->slots);
    if (work->slots == NULL) {
        return false;
    }
    for (uint64_t t = 0; t < work->tokens; t++) {
        work->slots[t] = entry(mapping, t);
    }
    report_slots(work);
    return true;
}

typedef struct {
    vector starts;  /* one more than batches */
    vector lengths;
    uint64_t batch; /* moves forward only */
} cursor;

/* The history is what a batch had before this call; a length below the batch's tokens counts as none. A token behind
   the last batch or in front of its own has its index for a position. */
static uint64_t position_of(cursor *at, uint64_t token)
{
    while (at->batch < at->lengths.count && token >= widened(at->starts, at->batch + 1)) {
        at->batch++;
    }
    if (at->batch == at->lengths.count || token < widened(at->starts, at->batch)) {
        return token;
    }
    const uint64_t start = widened(at->starts, at->batch);
    const uint64_t tokens = widened(at->starts, at->batch + 1) - start;
    const uint64_t length = widened(at->lengths, at->batch);

    return (length < tokens ? 0 : length - tokens) + token - start;
}

/* The first bad row of the table is reported here; axes of M-RoPE that no lane uses count too, for the caller meant
   them to be positions. */
static void report_positions(const qkv_work *work)
{
    const uint64_t rows = op_tensor_count(&work->tensors[COS_SIN], 0);
    const char *const axes[POSITION_AXES] = {", axis T,", ", axis H,", ", axis W,"};

    for (uint64_t i = 0; i < work->tokens * POSITION_AXES; i++) {
        if (work->positions[i] >= rows) {
            const char *axis = work->details->scene == ROPE ? "" : axes[i % POSITION_AXES];

            sim_report(SIM_CHECK_API, "position_out_of_range", QKV_NAME,
                       "position %lld of token %llu%s is outside the %llu rows of cosSin, 0 to %lld: pass a table with a "
                       "row for each position, or other positions",
                       (long long)work->positions[i], (unsigned long long)(i / POSITION_AXES), axis,
                       (unsigned long long)rows, (long long)rows - 1);
            break;
        }
    }
}

/* An entry as it stands there; looking at it is no access of the kernel's. */
static int64_t stored(vector values, uint64_t index)
{
    int32_t value;

    memcpy(&value, values.bytes + index * sizeof value, sizeof value);
    return value;
}

/* Whether all batches are ranges of tokens, one behind the other; reports the first that is none. */
static bool have_good_starts(uint64_t tokens, vector starts)
{
    for (uint64_t i = 0; i + 1 < starts.count; i++) {
        const int64_t start = stored(starts, i);
        const int64_t end = stored(starts, i + 1);
        if (start < 0 || end < start || (uint64_t)end > tokens) {
            sim_report(SIM_CHECK_API, "batch_out_of_range", QKV_NAME,
                       "queryStartLoc has batch %llu begin at token %lld and end before %lld, of %llu tokens; positions "
                       "come out wrong: pass starts from 0 to %llu that never fall",
                       (unsigned long long)i, (long long)start, (long long)end, (unsigned long long)tokens,
                       (unsigned long long)tokens);
            return false;
        }
    }
    return true;
}

/* A negative length gives positions that are reported. */
static void report_lengths(vector starts, vector lengths)
{
    for (uint64_t i = 0; i < lengths.count && i + 1 < starts.count; i++) {
        const int64_t count = stored(starts, i + 1) - stored(starts, i);
        const int64_t length = stored(lengths, i);
        if (length >= 0 && length < count) {
            sim_report(SIM_CHECK_API, "length_below_tokens", QKV_NAME,
                       "seqLens has %lld for batch %llu, which has %lld tokens in this call; the kernel takes it for one "
                       "without history: count history and tokens",
                       (long long)length, (unsigned long long)i, (long long)count);
            return;
        }
    }
}

static void derive_positions(const qkv_work *work, vector starts, vector lengths)
{
    cursor at = {starts, lengths, 0};

    for (uint64_t t = 0; t < work->tokens; t++) {
        const uint64_t position = position_of(&at, t);
        for (int axis = 0; axis < POSITION_AXES; axis++) {
            work->positions[t * POSITION_AXES + (uint64_t)axis] = position;
        }
    }
}

/* A token's positions stand side by side, time, height, width. */
static void copy_positions(const qkv_work *work, vector given)
{
    for (uint64_t i = 0; i < work->tokens * POSITION_AXES; i++) {
        work->positions[i] = widened(given, i);
    }
}

bool qkv_read_positions(qkv_work *work)
{
    const bool are_given = work->details->scene != ROPE;
    const vector first = find_vector(work, are_given ? MROPE_POSITION : QUERY_START_LOC);
    const vector second = are_given ? first : find_vector(work, SEQ_LENS);
    const bool is_readable = first.bytes != NULL && second.bytes != NULL;

    work->positions = is_readable ? calloc(work->tokens * POSITION_AXES, sizeof *work->positions) : NULL;
    if (work->positions == NULL) {
        return false;
    }
    if (are_given) {
        copy_positions(work, first);
    } else {
        if (sim_checking(SIM_CHECK_API) && have_good_starts(work->tokens, first)) {
            report_lengths(first, second);
        }
        derive_positions(work, first, second);
    }
    report_positions(work);
    return true;
}
