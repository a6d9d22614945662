/* SPDX-License-Identifier: Apache-2.0 */
/* Where things that a caller holds come from, so that a report can name them. */
#ifndef ACLSIM_CORE_ORIGIN_H_
#define ACLSIM_CORE_ORIGIN_H_

#include <stddef.h>
#include <stdint.h>

#include "core/export.h"

#define SIM_LABEL_BYTES 40
#define SIM_ORIGIN_BYTES 160

typedef struct {
    uint64_t number;      /* of all things made, in order; the first is 1 */
    const char *function; /* that made it */
    char label[SIM_LABEL_BYTES];
} sim_origin;

/* Of a thing that this thread makes now. */
SIM_EXPORT sim_origin sim_origin_now(const char *function);

/* "number 7, made by aclrtMalloc for "label"". */
void sim_origin_describe(const sim_origin *origin, char text[SIM_ORIGIN_BYTES]);

/* A count that goes up when something is queued or freed, so that the two can be put in order. */
uint64_t sim_tick(void);

#endif
