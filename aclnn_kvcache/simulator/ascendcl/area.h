/* SPDX-License-Identifier: Apache-2.0 */
/* A range of memory that a copy or a fill touches, wherever it is. */
#ifndef ACLSIM_ASCENDCL_AREA_H_
#define ACLSIM_ASCENDCL_AREA_H_

#include "acl/acl_base_rt.h"
#include "core/in_flight.h"
#include "core/memory_check.h"

typedef enum {
    AREA_PAGEABLE, /* host memory that the runtime does not know: taken as it is */
    AREA_PINNED,
    AREA_DEVICE,
} area_place;

typedef struct {
    const char *name; /* of the parameter */
    sim_access access;
    void *address;
    size_t bytes;
    area_place place;
    int32_t device; /* of AREA_DEVICE */
} area;

/* Finds where the area is; ACL_ERROR_RT_PARAM_INVALID when it leaves its allocation, or that was freed. */
aclError area_locate(const char *function, area *a);

/* Its bytes when work runs, perhaps long after; NULL when they were freed. Pinned memory must be held meanwhile. */
void *area_bytes(const area *a);

/* How many of its bytes, from the first on, may be touched: with memory checked not those of CANN's padding, which it
   reports, and else all. */
size_t area_allowed(const char *function, const area *a);

/* What a task that touches it uses: nothing where it is the program's own business. */
sim_use area_use(const area *a);

/* Tells the checks that these bytes of it were touched, unless they are the program's own business. */
void area_note(const area *a, size_t offset, size_t bytes);

#endif
