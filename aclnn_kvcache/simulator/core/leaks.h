/* SPDX-License-Identifier: Apache-2.0 */
/* The leak check: what is alive when it should not be any more. */
#ifndef ACLSIM_CORE_LEAKS_H_
#define ACLSIM_CORE_LEAKS_H_

#include <stdint.h>

#include "core/export.h"
#include "core/handle.h"

/* One report for each thing that callers made and that is alive, in the order in which they were made, under the name
   of the function that ends everything. Nothing while the check is off. */
SIM_EXPORT void sim_leaks_report(const char *function);

/* The same for what ends with these contexts, themselves among it, and for the device's memory if that ends too. */
void sim_leaks_report_reset(const char *function, const sim_entry *contexts, size_t count, int32_t device,
    int memory_ends);

#endif
