/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: every object that a caller holds is an opaque address which is never reused and never points to memory, so
   a stale handle, a handle of another kind and a made-up one are all told apart from a live one. */
#ifndef ACLSIM_CORE_HANDLE_H_
#define ACLSIM_CORE_HANDLE_H_

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

/* A new handle for the object; NULL when memory is exhausted. */
void *sim_handle_create(sim_kind kind, void *object);

/* The object behind a live handle of this kind, else NULL. */
void *sim_handle_get(sim_kind kind, const void *handle);

/* Ends the handle and returns its object; NULL when it was not a live handle of this kind. Of several threads that
   remove one handle, one gets the object. */
void *sim_handle_remove(sim_kind kind, const void *handle);

/* Number of live handles of the kind. */
long sim_handle_count(sim_kind kind);

#endif
