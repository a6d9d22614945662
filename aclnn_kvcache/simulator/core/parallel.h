/* SPDX-License-Identifier: Apache-2.0 */
/* Work split over the processor's cores. Helpers live for one call only: nothing outlasts it, so that a fork or the end
   of the program finds no thread of ours. */
#ifndef ACLSIM_CORE_PARALLEL_H_
#define ACLSIM_CORE_PARALLEL_H_

#include <stddef.h>

#include "core/export.h"

/* Runs every part, on this thread and on as many others as pay, in no order; returns when all are done. Parts write
   what no other part reads. A part is meant to take some 20 microseconds: a helper comes in for four of them. */
SIM_EXPORT void sim_parallel(size_t parts, void (*run)(void *work, size_t part), void *work);

#endif
