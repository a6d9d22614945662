/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays, scalars and lists: a count and the values, copied at creation. */
#ifndef ACLSIM_NNOPBASE_HOLDERS_H_
#define ACLSIM_NNOPBASE_HOLDERS_H_

#include <stddef.h>

#include "aclnn/acl_meta.h"
#include "core/handle.h"

typedef struct {
    uint64_t size;
    _Alignas(max_align_t) unsigned char values[];
} sim_holder;

/* A handle of this kind, which that function makes; NULL values give an empty one (observed.md: an int array of NULL
   and 3 has size 0). */
void *sim_holder_create(sim_kind kind, const void *values, uint64_t size, size_t item_bytes, const char *function);

/* Ends the handle; NULL is fine, anything else that is not live is reported. The caller frees what comes back. */
sim_holder *sim_holder_remove(sim_kind kind, const void *handle, const char *function);

#endif
