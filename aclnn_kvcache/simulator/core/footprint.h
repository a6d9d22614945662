/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that a call touches, exactly: kernels and copies tell each run of bytes as they come to it. */
#ifndef ACLSIM_CORE_FOOTPRINT_H_
#define ACLSIM_CORE_FOOTPRINT_H_

#include "core/order.h"

typedef struct {
    uintptr_t start;
    uintptr_t end;
} sim_span;

/* What a call did with one of its operands. Spans are in order and apart from each other once the call has ended. */
typedef struct {
    const char *what; /* "keyCacheRef", "dst" */
    int is_write;
    size_t count;
    size_t capacity;
    sim_span *spans;
} sim_footprint;

/* The call of this thread reads or writes these bytes of device memory, or of host memory that the runtime knows. */
SIM_EXPORT void sim_footprint_note(const char *what, const void *address, size_t bytes, int is_write);

/* Whether anybody wants to know. It stays what it is for as long as the call runs. */
SIM_EXPORT int sim_footprint_is_wanted(void);

/* For order.c: between them the thread's footprints are collected; at the end they are compared with those of others. */
void sim_footprint_begin(void);
void sim_footprint_end(sim_call *call);

#endif
