/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: every object that a caller holds is an opaque address which is never reused and never points to memory, so
   a stale handle, a handle of another kind and a made-up one are all told apart from a live one. */
#ifndef ACLSIM_CORE_HANDLE_H_
#define ACLSIM_CORE_HANDLE_H_

#include <stddef.h>

#include "core/export.h"
#include "core/origin.h"

typedef enum {
    SIM_CONTEXT,
    SIM_STREAM,
    SIM_STREAM_CONFIG,
    SIM_EVENT,
    SIM_TENSOR,
    SIM_SCALAR,
    SIM_INT_ARRAY,
    SIM_FLOAT_ARRAY,
    SIM_BOOL_ARRAY,
    SIM_TENSOR_LIST,
    SIM_SCALAR_LIST,
    SIM_EXECUTOR,
    SIM_KINDS,
} sim_kind;

/* A new handle for the object, which that function makes for its caller; NULL is for what comes and goes with something
   else. NULL when memory is exhausted. */
SIM_EXPORT void *sim_handle_create(sim_kind kind, void *object, const char *function);

/* The object behind a live handle of this kind, else NULL. */
SIM_EXPORT void *sim_handle_get(sim_kind kind, const void *handle);

/* Ends the handle, which that function does, and returns its object; NULL when it was not a live handle of this kind. Of
   several threads that remove one handle, one gets the object. */
SIM_EXPORT void *sim_handle_remove(sim_kind kind, const void *handle, const char *function);

typedef enum {
    SIM_NEVER_A_HANDLE,
    SIM_LIVE_HANDLE,
    SIM_ENDED_HANDLE,
} sim_handle_state;

/* What is known of any pointer that somebody takes for a handle. */
typedef struct {
    sim_handle_state state;
    sim_kind kind;
    sim_origin origin;    /* like the next, not known any more when the place was used again since: NULL functions */
    const char *ended_by;
    int is_replaced;      /* another object lives in the place of the one that ended */
} sim_handle_facts;

SIM_EXPORT sim_handle_facts sim_handle_look(const void *handle);

/* Number of live handles of the kind. */
SIM_EXPORT long sim_handle_count(sim_kind kind);

/* For objects that several threads use at once: like sim_handle_get, and calls retain on the object before another
   thread can remove its handle. */
void *sim_handle_acquire(sim_kind kind, const void *handle, void (*retain)(void *object));

typedef struct {
    void *handle;
    void *object;
    sim_origin origin;
} sim_entry;

/* Retains every live object of the kind; the caller frees the array. */
size_t sim_handle_collect(sim_kind kind, void (*retain)(void *object), sim_entry **entries);

#endif
