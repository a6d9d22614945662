/* SPDX-License-Identifier: Apache-2.0 */
#include "core/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "aclsim/aclsim.h"
#include "core/fault_plan.h"
#include "core/message.h"
#include "core/process.h"
#include "core/report.h"
#include "core/setting.h"

#define MESSAGE_BYTES 8192

atomic_int sim_is_watching = 1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all that follows */
static sim_fault_plan *plan;
static int64_t injected;
static struct {
    const char **names;
    int64_t count;
    int64_t capacity;
} calls; /* in their order */

static _Thread_local int is_inside; /* a call: what it calls itself is its own affair */

static int take(const char *text, char reason[SIM_REASON_BYTES])
{
    sim_fault_plan *next = NULL;
    if (text != NULL && *text != '\0' && (next = sim_fault_plan_read(text, reason)) == NULL) {
        /* A wrong text of the environment leaves nothing to watch for. */
        pthread_mutex_lock(&lock);
        atomic_store(&sim_is_watching, plan != NULL);
        pthread_mutex_unlock(&lock);
        return 0;
    }
    pthread_mutex_lock(&lock);
    free(plan);
    plan = next;
    injected = 0;
    calls.count = 0;
    atomic_store(&sim_is_watching, plan != NULL);
    pthread_mutex_unlock(&lock);
    return 1;
}

static sim_setting setting = {.variable = "ACLSIM_FAULTS", .take = take, .lock = PTHREAD_MUTEX_INITIALIZER};

SIM_EXPORT int aclsim_set_faults(const char *text)
{
    return sim_setting_set(&setting, "aclsim_set_faults", text);
}

aclError sim_faults_require(const char *function, aclError status)
{
    return sim_setting_require(&setting, function, status);
}

/* With the lock. */
static void write_down(const char *name)
{
    if (calls.count == calls.capacity) {
        int64_t capacity = calls.capacity == 0 ? 1024 : calls.capacity * 2;
        const char **more = realloc(calls.names, (size_t)capacity * sizeof *more);
        if (more == NULL) {
            fprintf(stderr, "aclsim: the host has no memory to count calls\n");
            abort();
        }
        calls.names = more;
        calls.capacity = capacity;
    }
    calls.names[calls.count++] = name;
}

static int is_meant(const sim_fault_rule *rule, sim_fault_target target, const sim_function *function)
{
    return rule->target == target && (rule->function == NULL || rule->function == function);
}

/* Counts for the rules that mean it, and adds what they have happen: all delays, the first failure. With the lock. */
static void apply(sim_fault_target target, const sim_function *function, sim_fault *fault)
{
    for (size_t i = 0; i < plan->count; ++i) {
        sim_fault_rule *rule = &plan->rules[i];
        if (!is_meant(rule, target, function) || (++rule->seen != rule->number && rule->number != 0)) {
            continue;
        }
        int is_any_call = target == SIM_FAULT_OF_ANY_CALL;
        if (is_any_call && rule->fault.is_failure && function->returns == SIM_RETURNS_VALUE) {
            continue; /* it cannot fail */
        }
        int64_t delay_us = fault->delay_us + rule->fault.delay_us;
        if (!fault->is_failure) {
            *fault = rule->fault;
            fault->status = is_any_call && fault->is_failure ? function->failure : fault->status;
        }
        fault->delay_us = delay_us;
        ++injected;
    }
}

int sim_call_begin(const char *name, sim_fault *fault)
{
    *fault = (sim_fault){0};
    if (is_inside || sim_process_forked()) {
        return 0;
    }
    sim_setting_read(&setting);
    const sim_function *function = sim_function_find(name);
    pthread_mutex_lock(&lock);
    int is_watched = plan != NULL && function != NULL;
    if (is_watched) {
        write_down(function->name);
        apply(SIM_FAULT_OF_CALL, function, fault);
        apply(SIM_FAULT_OF_ANY_CALL, function, fault);
    }
    pthread_mutex_unlock(&lock);
    if (fault->delay_us > 0) {
        struct timespec delay = {fault->delay_us / 1000000, fault->delay_us % 1000000 * 1000};
        nanosleep(&delay, NULL);
    }
    is_inside = is_watched;
    return is_watched;
}

void sim_calls_ignore(void)
{
    is_inside = 1;
}

/* By the families that the operators' and the runtime's own messages have. */
static void report(const char *function, aclError status)
{
    switch (status / 1000) {
    case 161:
        sim_message("EZ1001", "AclNN_Parameter_Error", "%s failed with %d: " SIM_FAULT_TEXT ".", function, status);
        break;
    case 361:
    case 561:
        sim_message("EZ9999", "AclNN_Inner_Error", "%s failed with %d: " SIM_FAULT_TEXT ".", function, status);
        break;
    default:
        sim_fail(status, function, SIM_FAULT_TEXT);
    }
}

void sim_call_end(const char *function, const sim_fault *fault)
{
    is_inside = 0;
    if (fault->is_failure && fault->status != 0) {
        report(function, fault->status);
    }
}

sim_fault sim_fault_of_task(const char *name)
{
    sim_fault fault = {0};
    const sim_function *function = atomic_load(&sim_is_watching) ? sim_function_find(name) : NULL;
    if (function != NULL) {
        pthread_mutex_lock(&lock);
        if (plan != NULL) {
            apply(SIM_FAULT_OF_TASK, function, &fault);
        }
        pthread_mutex_unlock(&lock);
    }
    return fault;
}

int sim_fault_exhausts(void)
{
    sim_fault fault = {0};
    if (atomic_load(&sim_is_watching)) {
        pthread_mutex_lock(&lock);
        if (plan != NULL) {
            apply(SIM_FAULT_OF_ALLOCATION, NULL, &fault);
        }
        pthread_mutex_unlock(&lock);
    }
    return fault.is_failure;
}

/* What CANN does on a thread without a context: the text stays, and new text comes in front of it. */
static const char *with_stale(const char *said)
{
    static _Thread_local char text[MESSAGE_BYTES];
    if (said != NULL) {
        size_t length = strnlen(said, MESSAGE_BYTES / 2);
        memmove(text + length + 1, text, MESSAGE_BYTES - length - 2); /* the last byte stays 0 */
        memcpy(text, said, length);
        text[length] = text[length + 1] == '\0' ? '\0' : '\n';
    }
    return *text == '\0' ? NULL : text;
}

const char *sim_fault_message(const char *said)
{
    if (!atomic_load(&sim_is_watching)) {
        return said;
    }
    pthread_mutex_lock(&lock);
    sim_message_manner manner = plan == NULL ? SIM_MESSAGE_GOOD : plan->message;
    pthread_mutex_unlock(&lock);
    switch (manner) {
    case SIM_MESSAGE_NULL:
        return NULL;
    case SIM_MESSAGE_BAD_BYTES:
        return "EZ\xFF\xFE\x80 \xC3( \xED\xA0\x80 %s%n\x1B[31m\r\n\x01";
    case SIM_MESSAGE_STALE:
        return with_stale(said);
    default:
        return said;
    }
}

SIM_EXPORT int64_t aclsim_call_count(void)
{
    pthread_mutex_lock(&lock);
    int64_t count = calls.count;
    pthread_mutex_unlock(&lock);
    return count;
}

SIM_EXPORT const char *aclsim_call_name(int64_t number)
{
    pthread_mutex_lock(&lock);
    const char *name = number >= 1 && number <= calls.count ? calls.names[number - 1] : NULL;
    pthread_mutex_unlock(&lock);
    return name;
}

SIM_EXPORT int64_t aclsim_fault_count(void)
{
    pthread_mutex_lock(&lock);
    int64_t count = injected;
    pthread_mutex_unlock(&lock);
    return count;
}
