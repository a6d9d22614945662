/* SPDX-License-Identifier: Apache-2.0 */
/* A text that steers the simulator: of an environment variable, read at the first use, or of a control function. */
#ifndef ACLSIM_CORE_SETTING_H_
#define ACLSIM_CORE_SETTING_H_

#include <pthread.h>
#include <stdatomic.h>

#include "acl/acl_base_rt.h"

#define SIM_REASON_BYTES 320

typedef struct {
    const char *variable;
    int (*take)(const char *text, char reason[SIM_REASON_BYTES]); /* 0 with the reason, and nothing changed, if wrong */
    pthread_mutex_t lock;
    atomic_int is_read;
    int is_wrong; /* the environment's text, until another is set; with the lock */
    char reason[SIM_REASON_BYTES];
} sim_setting;

/* Takes the environment's text, once; one that is wrong changes nothing, and a line on standard error says so. */
void sim_setting_read(sim_setting *setting);

/* What a control function does: 0, or -1 with a line on standard error and nothing changed. */
int sim_setting_set(sim_setting *setting, const char *function, const char *text);

/* A failure that names the environment variable, while its text is wrong and no other was set. */
aclError sim_setting_require(sim_setting *setting, const char *function, aclError status);

#endif
