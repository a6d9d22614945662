/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that a call touches, exactly: kernels and copies tell each run of bytes as they come to it. */
#ifndef ACLSIM_CORE_FOOTPRINT_H_
#define ACLSIM_CORE_FOOTPRINT_H_

#include "core/order.h"

typedef struct {
    uintptr_t start;
    uintptr_t end;
} sim_span;

/* Bytes that were touched twice: how many, in how many ranges, and the first of these. */
typedef struct {
    size_t bytes;
    size_t ranges;
    sim_span first;
} sim_overlap;

typedef enum {
    SIM_READS,
    SIM_WRITES,
    SIM_READS_FIRST, /* in front of whatever the same call writes there */
} sim_touch;

/* What a call did with one of its operands. Tidy spans are in order and apart from each other. */
typedef struct {
    const char *what; /* "keyCacheRef", "dst" */
    sim_touch touch;
    size_t count;
    size_t capacity;
    sim_span *spans;
    sim_overlap again; /* what it touched more than once; complete when the spans are tidy */
} sim_footprint;

/* The call of this thread touches these bytes of device memory, or of host memory that the runtime knows. */
SIM_EXPORT void sim_footprint_note(const char *what, const void *address, size_t bytes, sim_touch touch);

/* Whether anybody wants to know. It stays what it is for as long as the call runs. */
SIM_EXPORT int sim_footprint_is_wanted(void);

/* What the call of this thread has touched so far, tidy. Good until the next note. */
SIM_EXPORT const sim_footprint *sim_footprints(size_t *count);

/* For order.c: between them the thread's footprints are collected; at the end, which needs its lock, they are compared
   with those of others. */
void sim_footprint_begin(void);
void sim_footprint_end(sim_call *call);

#endif
