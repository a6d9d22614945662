/* SPDX-License-Identifier: Apache-2.0 */
#include "core/counters.h"

#include <stdatomic.h>

#include "core/handle.h"

#define SIMULATOR_VERSION "0.1.0 (CANN 9.1.0, Ascend950PR_9599)"

static atomic_llong counts[ACLSIM_COUNTERS];

/* Which kinds of handles add up to a counter. */
static const struct {
    aclsimCounter counter;
    sim_kind kind;
} handle_counters[] = {
    {ACLSIM_LIVE_CONTEXTS, SIM_CONTEXT},
    {ACLSIM_LIVE_EVENTS, SIM_EVENT},
    {ACLSIM_LIVE_TENSORS, SIM_TENSOR},
    {ACLSIM_LIVE_HOLDERS, SIM_SCALAR},
    {ACLSIM_LIVE_HOLDERS, SIM_INT_ARRAY},
    {ACLSIM_LIVE_HOLDERS, SIM_FLOAT_ARRAY},
    {ACLSIM_LIVE_HOLDERS, SIM_BOOL_ARRAY},
    {ACLSIM_LIVE_HOLDERS, SIM_TENSOR_LIST},
    {ACLSIM_LIVE_HOLDERS, SIM_SCALAR_LIST},
    {ACLSIM_LIVE_EXECUTORS, SIM_EXECUTOR},
};

void sim_count(aclsimCounter counter, int64_t change)
{
    atomic_fetch_add(&counts[counter], change);
}

SIM_EXPORT int64_t aclsim_counter(aclsimCounter counter)
{
    if ((unsigned)counter >= ACLSIM_COUNTERS) {
        return -1;
    }
    int64_t value = atomic_load(&counts[counter]);
    for (size_t i = 0; i < sizeof handle_counters / sizeof *handle_counters; ++i) {
        if (handle_counters[i].counter == counter) {
            value += sim_handle_count(handle_counters[i].kind);
        }
    }
    return value;
}

SIM_EXPORT const char *aclsim_version(void)
{
    return SIMULATOR_VERSION;
}
