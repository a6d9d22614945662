/* SPDX-License-Identifier: Apache-2.0 */
/* Initialisation is a count that finalising ignores. It guards nothing: devices, streams and memory outlive it, as they
   work before it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "api.h"
#include "config.h"
#include "core/checks.h"
#include "core/counters.h"
#include "core/device.h"
#include "core/handle.h"
#include "core/host_touch.h"
#include "core/leaks.h"
#include "core/memory.h"
#include "core/profile.h"
#include "core/schedule.h"
#include "core/stream.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t references;
static int finalized;
static char *first_content; /* of the process's first initialisation; later ones must have the same */

static aclError initialize(const char *function, const char *config_path)
{
    if (references > 0) {
        ++references;
        sim_report(SIM_CHECK_API, "repeated_init", function,
            "ACL is initialised already; who gets %d does not own it, and ends its use by aclFinalizeReference or not at "
            "all", ACL_ERROR_REPEAT_INITIALIZE);
        return sim_fail(ACL_ERROR_REPEAT_INITIALIZE, function, "ACL is initialised already, now %llu times",
            (unsigned long long)references);
    }
    /* CANN's aclInit asks for the product's name; 500000 is its answer where there is none to get. A wrong profile
       leaves no name either. */
    if (sim_device_soc_name(function, ACL_ERROR_INTERNAL_ERROR) == NULL) {
        return ACL_ERROR_INTERNAL_ERROR;
    }
    TRY(sim_check_require(function, ACL_ERROR_INTERNAL_ERROR));
    TRY(sim_schedule_require(function, ACL_ERROR_INTERNAL_ERROR));
    TRY(sim_faults_require(function, ACL_ERROR_INTERNAL_ERROR));
    char *content = NULL;
    TRY(config_read(function, config_path, &content));
    if (first_content == NULL) {
        first_content = content;
    } else {
        int same = strcmp(content, first_content) == 0;
        free(content);
        if (!same) {
            return sim_fail(ACL_ERROR_INVALID_PARAM, function,
                "configPath is \"%s\"; expected the content of this process's first initialisation",
                config_path == NULL ? "" : config_path);
        }
    }
    references = 1;
    finalized = 0;
    sim_life_set(SIM_INITIALISED);
    sim_host_touch_look();
    return ACL_SUCCESS;
}

static aclError finalize(const char *function)
{
    if (finalized) {
        sim_report(SIM_CHECK_API, "repeated_finalize", function,
            "ACL was finalised already; whoever called aclInit with 0 finalises it, once");
        return sim_fail(ACL_ERROR_REPEAT_FINALIZE, function, "ACL was finalised already");
    }
    finalized = 1;
    references = 0;
    sim_streams_report_end(function, "finalized_in_flight");
    sim_leaks_report(function);
    sim_life_set(SIM_FINALISED);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclInit(const char *configPath)
{
    ENTER_ANY_TIME(aclInit(configPath));
    sim_process_use();
    sim_count(ACLSIM_INIT_CALLS, 1);
    pthread_mutex_lock(&lock);
    sim_profile_freeze(1);
    aclError status = initialize(__func__, configPath);
    sim_profile_freeze(references > 0);
    pthread_mutex_unlock(&lock);
    return status;
}

/* Whoever got 100002 may well be done by now without having said so; what is alive shows that somebody is not. */
static int in_use(void)
{
    static const sim_kind kinds[] = {SIM_STREAM, SIM_EVENT, SIM_TENSOR, SIM_EXECUTOR};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        if (sim_handle_count(kinds[i]) > 0) {
            return 1;
        }
    }
    for (int32_t device = 0; device < SIM_MOST_DEVICES; ++device) {
        if (sim_memory_in_use(device) > 0) {
            return 1;
        }
    }
    return 0;
}

SIM_EXPORT aclError aclFinalize(void)
{
    ENTER_ANY_TIME(aclFinalize());
    sim_count(ACLSIM_FINALIZE_CALLS, 1);
    pthread_mutex_lock(&lock);
    if (references > 1 && in_use()) {
        sim_report(SIM_CHECK_API, "finalize_in_use", __func__,
            "ACL was initialised %llu times and this ends it for all of them; aclFinalizeReference ends one",
            (unsigned long long)references);
    }
    aclError status = finalize(__func__);
    sim_profile_freeze(0);
    pthread_mutex_unlock(&lock);
    return status;
}

SIM_EXPORT aclError aclFinalizeReference(uint64_t *refCount)
{
    ENTER_ANY_TIME(aclFinalizeReference(refCount));
    sim_count(ACLSIM_FINALIZE_CALLS, 1);
    aclError status = ACL_SUCCESS;
    pthread_mutex_lock(&lock);
    if (references > 1) {
        --references;
    } else if (references == 1) {
        status = finalize(__func__);
    } else {
        status = FAIL(ACL_ERROR_REPEAT_FINALIZE, "ACL is not initialised");
    }
    sim_profile_freeze(references > 0);
    if (refCount != NULL) {
        *refCount = references;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
