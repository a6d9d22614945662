/* SPDX-License-Identifier: Apache-2.0 */
#include "core/life.h"

#include <stdatomic.h>

#include "core/checks.h"

static atomic_int current = SIM_NOT_INITIALISED;
static atomic_int is_told; /* the one report of this part of the process's life */

void sim_life_set(sim_life life)
{
    atomic_store(&current, life);
    atomic_store(&is_told, 0);
}

void sim_life_require(const char *function)
{
    const int life = atomic_load_explicit(&current, memory_order_relaxed);
    if (life == SIM_INITIALISED || !sim_checking(SIM_CHECK_API) || atomic_exchange(&is_told, 1)) {
        return;
    }
    if (life == SIM_FINALISED) {
        sim_report(SIM_CHECK_API, "call_after_finalize", function,
            "ACL was finalised; on a device what is left of it may be gone, so give everything back before that");
    } else {
        sim_report(SIM_CHECK_API, "call_before_init", function,
            "ACL is not initialised; on a device this may fail: call aclInit first");
    }
}
