/* SPDX-License-Identifier: Apache-2.0 */
#include "core/setting.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/process.h"
#include "core/report.h"

void sim_setting_read(sim_setting *setting)
{
    if (atomic_load_explicit(&setting->is_read, memory_order_acquire)) {
        return;
    }
    pthread_mutex_lock(&setting->lock);
    if (!atomic_load(&setting->is_read)) {
        setting->is_wrong = !setting->take(getenv(setting->variable), setting->reason);
        if (setting->is_wrong) {
            fprintf(stderr, "aclsim: %s: %s\n", setting->variable, setting->reason);
        }
        atomic_store_explicit(&setting->is_read, 1, memory_order_release);
    }
    pthread_mutex_unlock(&setting->lock);
}

int sim_setting_set(sim_setting *setting, const char *function, const char *text)
{
    char reason[SIM_REASON_BYTES];
    if (sim_process_forked()) {
        fprintf(stderr, "aclsim: %s: this process was forked from one that uses the runtime\n", function);
        return -1;
    }
    sim_setting_read(setting); /* the environment's comes first, so that it cannot come later */
    pthread_mutex_lock(&setting->lock);
    int is_good = setting->take(text, reason);
    if (is_good) {
        setting->is_wrong = 0;
    }
    pthread_mutex_unlock(&setting->lock);
    if (!is_good) {
        fprintf(stderr, "aclsim: %s: %s\n", function, reason);
    }
    return is_good ? 0 : -1;
}

aclError sim_setting_require(sim_setting *setting, const char *function, aclError status)
{
    sim_setting_read(setting);
    pthread_mutex_lock(&setting->lock);
    int is_wrong = setting->is_wrong;
    pthread_mutex_unlock(&setting->lock);
    if (is_wrong) {
        return sim_fail_variable(status, function, "%s is wrong: %s", setting->variable, setting->reason);
    }
    return ACL_SUCCESS;
}
