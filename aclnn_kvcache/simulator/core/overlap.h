/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that two footprints have in common. Their spans are tidy. */
#ifndef ACLSIM_CORE_OVERLAP_H_
#define ACLSIM_CORE_OVERLAP_H_

#include "core/footprint.h"

#define SIM_OVERLAP_BYTES 256

/* The common bytes; of a footprint without spans there are none. */
SIM_EXPORT sim_overlap sim_overlap_of(const sim_footprint *a, const sim_footprint *b);

/* Whether every byte of the one is among those of the other. */
int sim_overlap_is_whole(const sim_footprint *a, const sim_footprint *other);

/* How many there are and where, such as: 16 bytes in 2 ranges, first the 8 at 0x..., byte 72 of the allocation of ... */
SIM_EXPORT void sim_overlap_describe(const sim_overlap *overlap, char text[SIM_OVERLAP_BYTES]);

#endif
