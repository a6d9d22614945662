/* SPDX-License-Identifier: Apache-2.0 */
#include "core/latch.h"

#include "aclsim/aclsim.h"
#include "core/export.h"
#include "core/monitor.h"
#include "core/process.h"

static atomic_int held;

void sim_latch_wait(const atomic_int *dropped)
{
    if (!atomic_load(&held)) {
        return;
    }
    sim_monitor_lock();
    while (atomic_load(&held) && !atomic_load(dropped)) {
        sim_monitor_wait(NULL);
    }
    sim_monitor_unlock();
}

SIM_EXPORT void aclsim_hold_streams(void)
{
    atomic_store(&held, 1);
}

SIM_EXPORT void aclsim_release_streams(void)
{
    if (!sim_process_forked()) {
        sim_monitor_lock();
        atomic_store(&held, 0);
        sim_monitor_wake_and_unlock();
    }
}
