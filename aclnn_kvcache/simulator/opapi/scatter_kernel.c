/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel: moves the row of each token and head into its slot. No arithmetic; every byte pattern passes through
   (scatter_pa_kv_cache_with_k_scale.md, 2 and 4). */
#include <stdlib.h>

#include "core/checks.h"
#include "opapi/device_check.h"
#include "opapi/device_copy.h"
#include "opapi/op_clashes.h"
#include "opapi/op_duplicates.h"
#include "opapi/op_staging.h"
#include "opapi/op_tensor.h"
#include "opapi/scatter.h"

typedef op_operand_place operand;

typedef struct {
    operand operands[SCATTER_TENSORS];
    uint64_t tokens;
    uint64_t heads;
    uint64_t blocks;
    uint64_t block_size;
    uint64_t mask; /* of the index width */
    int64_t *slots;
} scatter;

static const struct {
    scatter_tensor source;
    scatter_tensor cache;
    token_order order;
} moves[] = {
    {KEY, KEY_CACHE, odd_tokens_first},
    {VALUE, VALUE_CACHE, even_tokens_first},
    {KEY_SCALE, KEY_SCALE_CACHE, last_token_first},
};

#define MOVES (sizeof moves / sizeof moves[0])

/* One row of a tensor: offset of its first element and the stride within it. */
typedef struct {
    const operand *of;
    uint64_t offset;
    uint64_t stride;
} row_place;

static device_run run_from(const row_place *row, uint64_t element, uint64_t mask)
{
    const uint64_t offset = (row->offset + element * row->stride) & mask;

    return (device_run){row->of, row->of->start + offset * row->of->item_bytes, row->stride * row->of->item_bytes};
}

/* Whether the element offsets of the row wrap inside it. Arithmetic of 64 bits wraps where addresses do. */
static bool wraps(const row_place *row, uint64_t count, uint64_t mask)
{
    return mask != UINT64_MAX && (row->offset & mask) + (count - 1) * row->stride > mask;
}

/* Caches of more than 2^32 elements: the row is one of the cache, but another. */
static void report_wrap(const row_place *to, uint64_t mask, uint64_t token)
{
    if ((to->offset & mask) != to->offset) {
        sim_report(SIM_CHECK_MEM, "wrapped_offset", SCATTER_NAME,
                   "token %llu: element %llu of tensor %s is beyond the kernel's 32 bits, which leave element %llu: that "
                   "one is overwritten; split caches that are this large",
                   (unsigned long long)token, (unsigned long long)to->offset, to->of->name,
                   (unsigned long long)(to->offset & mask));
    }
}

static bool move_row(const row_place *to, const row_place *from, uint64_t count, uint64_t mask)
{
    if (!wraps(to, count, mask) && !wraps(from, count, mask)) {
        const device_run target = run_from(to, 0, mask);
        const device_run source = run_from(from, 0, mask);
        return device_move(&target, &source, count);
    }
    for (uint64_t i = 0; i < count; i++) {
        const device_run target = run_from(to, i, mask);
        const device_run source = run_from(from, i, mask);
        if (!device_move(&target, &source, 1)) {
            return false;
        }
    }
    return true;
}

/* Whether the greatest offset that these counts lead to fits the index width. None does where steps go down. */
static bool fits(const operand *of, const uint64_t *counts, size_t axes, uint64_t mask)
{
    uint64_t offset = 0;

    for (size_t axis = 0; axis < axes; axis++) {
        uint64_t span;
        if (counts[axis] == 0 || __builtin_mul_overflow(counts[axis] - 1, of->strides[axis], &span) ||
            __builtin_add_overflow(offset, span, &offset) || offset > mask) {
            return false;
        }
    }
    return true;
}

static bool never_wraps(const scatter *work, size_t move, uint64_t row_elements)
{
    const uint64_t of_source[] = {work->tokens, work->heads, row_elements};
    const uint64_t of_cache[] = {work->blocks, work->heads, work->block_size, row_elements};

    return fits(&work->operands[moves[move].source], of_source, 3, work->mask) &&
           fits(&work->operands[moves[move].cache], of_cache, 4, work->mask);
}

/* Rows of all heads at once: no offset of theirs can wrap. */
static bool move_heads(const row_place *to, const row_place *from, uint64_t heads, uint64_t count)
{
    const device_rows target = {run_from(to, 0, UINT64_MAX), to->of->strides[1] * to->of->item_bytes};
    const device_rows source = {run_from(from, 0, UINT64_MAX), from->of->strides[1] * from->of->item_bytes};

    return device_move_rows(&target, &source, heads, count);
}

/* All heads of one token in one of the moves. */
static bool move_token(const scatter *work, size_t move, uint64_t token, uint64_t row_elements, bool at_once)
{
    const operand *source = &work->operands[moves[move].source];
    const operand *cache = &work->operands[moves[move].cache];
    const uint64_t block = (uint64_t)work->slots[token] / work->block_size;
    const uint64_t offset = (uint64_t)work->slots[token] % work->block_size;
    row_place to = {cache, block * cache->strides[0] + offset * cache->strides[2], cache->strides[3] & work->mask};
    row_place from = {source, token * source->strides[0], source->strides[2] & work->mask};

    device_at_token(token, "slot", work->slots[token]);
    if (at_once) {
        return move_heads(&to, &from, work->heads, row_elements);
    }
    for (uint64_t head = 0; head < work->heads; head++) {
        report_wrap(&to, work->mask, token);
        if (!move_row(&to, &from, row_elements, work->mask)) {
            return false;
        }
        to.offset += cache->strides[1];
        from.offset += source->strides[1];
    }
    return true;
}

static aclError move_all(const scatter *work, const sim_tensor *tensors)
{
    for (size_t move = 0; move < MOVES; move++) {
        /* A scale is a row of one. */
        const sim_tensor *source = &tensors[moves[move].source];
        const uint64_t row_elements = source->rank == 3 ? op_tensor_count(source, 2) : 1;
        const bool at_once = never_wraps(work, move, row_elements);
        for (uint64_t step = 0; step < work->tokens; step++) {
            const uint64_t token = moves[move].order(step, work->tokens);
            if (work->slots[token] != SLOT_SKIPPED && !move_token(work, move, token, row_elements, at_once)) {
                return ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
            }
        }
    }
    return ACL_SUCCESS;
}

/* Where each tensor is to be used, after copying in what is staged. */
static bool stage_in(const op_launch *launch, operand operands[SCATTER_TENSORS])
{
    const scatter_details *details = launch->plan->details;

    for (size_t i = 0; i < SCATTER_TENSORS; i++) {
        if (!op_stage_in(launch, i, details->staged_at[i], &operands[i])) {
            return false;
        }
    }
    return true;
}

/* A staged cache goes back whole, so what others wrote to it meanwhile is lost (habits.md, fact 4). */
static bool stage_out(const op_launch *launch, const operand operands[SCATTER_TENSORS])
{
    const scatter_details *details = launch->plan->details;

    device_at_no_token();
    for (size_t move = 0; move < MOVES; move++) {
        const scatter_tensor cache = moves[move].cache;
        const op_operand_place original = op_operand_in_place(launch, cache);
        if (details->staged_at[cache] != NOT_STAGED && !device_dense_to_view(&original, &operands[cache])) {
            return false;
        }
    }
    return true;
}

/* The kernel has 32-bit unsigned indices as long as the update is small, whatever the size of the caches: then the
   limit, slots and element offsets are all modulo 2^32 (scatter_pa_kv_cache_with_k_scale.md, 4). */
static uint64_t index_mask(const sim_tensor *tensors)
{
    const int64_t *key = tensors[KEY].dims;
    const int64_t head_size = key[2] > tensors[VALUE].dims[2] ? key[2] : tensors[VALUE].dims[2];
    const uint64_t elements = (uint64_t)key[0] * (uint64_t)key[1] * (uint64_t)head_size;

    return (int64_t)elements <= INT32_MAX ? UINT32_MAX : UINT64_MAX;
}

static aclError run(const op_launch *launch)
{
    const sim_tensor *tensors = launch->plan->tensors;
    scatter work = {
        .tokens = op_tensor_count(&tensors[KEY], 0),
        .heads = op_tensor_count(&tensors[KEY], 1),
        .mask = index_mask(tensors),
    };
    if (work.tokens == 0 || !stage_in(launch, work.operands)) {
        return work.tokens == 0 ? ACL_SUCCESS : ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
    }
    const int64_t *cache = tensors[KEY_CACHE].dims;
    const uint64_t cache_slots = (uint64_t)cache[0] * (uint64_t)cache[2];
    const uint64_t limit = cache_slots & work.mask;
    aclError fault = ACL_SUCCESS;

    if (limit != cache_slots) {
        sim_report(SIM_CHECK_MEM, "wrapped_limit", SCATTER_NAME,
                   "the caches have %llu slots, of which the kernel's 32 bits leave %llu: the others are skipped; split "
                   "caches that are this large",
                   (unsigned long long)cache_slots, (unsigned long long)limit);
    }
    work.blocks = (uint64_t)cache[0];
    work.block_size = (uint64_t)cache[2] & work.mask;
    work.slots = scatter_read_slots(&work.operands[SLOT_MAPPING], work.tokens, limit, work.mask, &fault);
    if (work.slots == NULL) {
        return fault;
    }
    fault = move_all(&work, tensors);
    if (fault == ACL_SUCCESS) {
        fault = stage_out(launch, work.operands) ? ACL_SUCCESS : ACL_ERROR_RT_VECTOR_CORE_EXCEPTION;
        op_report_overlapping_rows(launch, &(op_slots){work.slots, work.tokens, SLOT_SKIPPED, work.block_size});
    }
    free(work.slots);
    return fault;
}

const op_kernel scatter_kernel = {
    SCATTER_NAME, scatter_names, 1 << KEY_CACHE | 1 << VALUE_CACHE | 1 << KEY_SCALE_CACHE, run};
