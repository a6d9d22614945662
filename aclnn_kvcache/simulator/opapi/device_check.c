/* SPDX-License-Identifier: Apache-2.0 */
#include "opapi/device_check.h"

#include <stdio.h>
#include <string.h>

#include "core/checks.h"
#include "core/shadow.h"
#include "opapi/op_tensor.h"

#define PART_BYTES 96

typedef struct {
    bool is_known;
    uint64_t token;
    const char *what;
    int64_t value;
} moment;

static _Thread_local moment at;
static _Thread_local uint64_t told; /* a bit for each tensor: of the token that the kernel is at */

/* What was read without having been written: of each tensor the first of the lowest token, which need not be the first
   that the kernel comes to. */
typedef struct {
    op_operand_place of;
    uint64_t address;
    moment at;
} unwritten;

static _Thread_local unwritten unwritten_reads[MOST_TENSORS];
static _Thread_local uint64_t unwritten_tensors; /* a bit for each that has one */

void device_at_token(uint64_t token, const char *what, int64_t value)
{
    if (!sim_checking(SIM_CHECK_MEM) && !sim_checking(SIM_CHECK_INIT)) {
        return;
    }
    at = (moment){true, token, what, value};
    told = 0;
}

void device_at_no_token(void)
{
    at.is_known = false;
    told = 0;
}

static void describe_token(const moment *when, char text[PART_BYTES])
{
    if (when->is_known) {
        snprintf(text, PART_BYTES, "token %llu (%s %lld): ", (unsigned long long)when->token, when->what,
                 (long long)when->value);
    } else {
        text[0] = '\0';
    }
}

/* Where an address lies seen from the tensor. */
static void describe_distance(const op_operand_place *of, uint64_t address, char text[PART_BYTES])
{
    if (address < of->low) {
        snprintf(text, PART_BYTES, "%llu bytes in front of it", (unsigned long long)(of->low - address));
    } else if (address >= of->end) {
        snprintf(text, PART_BYTES, "%llu bytes behind it", (unsigned long long)(address - of->end));
    } else {
        snprintf(text, PART_BYTES, "%llu bytes into the tensor", (unsigned long long)(address - of->low));
    }
}

/* How many bytes from the first on belong to the tensor. */
static uint64_t inside(const op_operand_place *of, uint64_t address, uint64_t bytes)
{
    if (address < of->low || address >= of->end) {
        return 0;
    }
    return of->end - address < bytes ? of->end - address : bytes;
}

static void report(const op_operand_place *of, uint64_t address, uint64_t bytes, uint64_t outside,
                   sim_access access)
{
    const void *first = (const void *)(uintptr_t)outside;
    const char *kind = sim_memory_kind(first, access);
    const bool is_tensors = inside(of, outside, 1) != 0;
    const bool is_freed = strcmp(kind, "use_after_free") == 0 || strcmp(kind, "freed_while_queued") == 0;
    const char *copy = of->is_copy ? " (its copy in the workspace)" : "";
    char what[2 * PART_BYTES];
    char token[PART_BYTES];
    char distance[PART_BYTES];
    char where[SIM_PLACE_BYTES];

    describe_token(&at, token);
    describe_distance(of, outside, distance);
    sim_memory_describe(first, (const void *)(uintptr_t)of->start, where);
    snprintf(what, sizeof what, "%s%s of %llu bytes at %p", token, access == SIM_READ ? "a read" : "a write",
             (unsigned long long)bytes, (const void *)(uintptr_t)address);
    if (is_tensors && is_freed) {
        sim_report(SIM_CHECK_MEM, kind, of->kernel, "%s is one of tensor %s%s, whose memory was freed: %p is %s", what,
                   of->name, copy, first, where);
    } else {
        sim_report(SIM_CHECK_MEM, kind, of->kernel, "%s is not all inside %stensor %s%s: %p is %s, and %s", what,
                   is_tensors ? "the memory of " : "", of->name, copy, first, distance, where);
    }
}

bool device_check_bounds(const op_operand_place *of, uint64_t address, uint64_t bytes, sim_access access)
{
    if (!sim_checking(SIM_CHECK_MEM)) {
        return true;
    }
    uint64_t good = inside(of, address, bytes);
    if (good > 0) {
        good = sim_memory_inside((const void *)(uintptr_t)address, good);
    }
    if (good == bytes) {
        return true;
    }
    if ((told & UINT64_C(1) << of->index) == 0) {
        told |= UINT64_C(1) << of->index;
        report(of, address, bytes, address + good, access);
    }
    return false;
}

/* The element at an offset from the first, by the axes: those with the longest strides first. */
static void describe_index(const op_operand_place *of, uint64_t elements, char text[PART_BYTES])
{
    const uint64_t rank = of->view->rank;
    uint64_t index[KERNEL_AXES] = {0};
    bool is_done[KERNEL_AXES] = {false};
    size_t length = 0;

    for (uint64_t turn = 0; turn < rank; turn++) {
        uint64_t longest = rank;
        for (uint64_t axis = 0; axis < rank; axis++) {
            if (!is_done[axis] && (longest == rank || of->strides[axis] > of->strides[longest])) {
                longest = axis;
            }
        }
        is_done[longest] = true;
        if (of->strides[longest] != 0 && of->view->dims[longest] > 1) {
            index[longest] = elements / of->strides[longest];
            elements %= of->strides[longest];
        }
    }
    for (uint64_t axis = 0; axis < rank; axis++) {
        length += (size_t)snprintf(text + length, PART_BYTES - length, "%s%llu", axis == 0 ? "[" : ", ",
                                   (unsigned long long)index[axis]);
    }
    snprintf(text + length, PART_BYTES - length, "]");
}

void device_check_written(const op_operand_place *of, uint64_t address, uint64_t bytes)
{
    const void *place = (const void *)(uintptr_t)address;
    const uint64_t written = sim_shadow_written(place, bytes);
    unwritten *known = &unwritten_reads[of->index];
    const uint64_t bit = UINT64_C(1) << of->index;

    if (written == bytes) {
        return;
    }
    const bool is_lower = at.is_known && known->at.is_known && at.token < known->at.token;
    if ((unwritten_tensors & bit) != 0 ? is_lower : sim_shadow_first(place, of->kernel)) {
        *known = (unwritten){*of, address + written, at};
        unwritten_tensors |= bit;
    }
}

static void report_unwritten(const unwritten *found)
{
    const op_operand_place *of = &found->of;
    const void *place = (const void *)(uintptr_t)found->address;
    char token[PART_BYTES];
    char index[PART_BYTES];
    char where[SIM_PLACE_BYTES];

    describe_token(&found->at, token);
    describe_index(of, (found->address - of->start) / of->item_bytes, index);
    sim_memory_describe(place, place, where);
    sim_report(SIM_CHECK_INIT, "uninitialised_read", of->kernel,
               "%selement %s of tensor %s%s was never written; it is %s: queue what writes it first", token, index, of->name,
               of->is_copy ? " (its copy in the workspace)" : "", where);
}

void device_report_unwritten(void)
{
    for (; unwritten_tensors != 0; unwritten_tensors &= unwritten_tensors - 1) {
        report_unwritten(&unwritten_reads[__builtin_ctzll(unwritten_tensors)]);
    }
}
