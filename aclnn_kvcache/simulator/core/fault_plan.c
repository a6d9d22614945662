/* SPDX-License-Identifier: Apache-2.0 */
#include "core/fault_plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"
#define KERNEL "kernel:"
#define LONGEST_DELAY_MS 60000

static int complain(char reason[SIM_REASON_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(char reason[SIM_REASON_BYTES], const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(reason, SIM_REASON_BYTES, format, values);
    va_end(values);
    return 0;
}

/* A whole text of digits, from 1 to the largest; else 0. */
static int64_t read_number(const char *text, size_t length, int64_t largest)
{
    if (length == 0 || length > 18 || strspn(text, DIGITS) < length) {
        return 0;
    }
    int64_t number = strtoll(text, NULL, 10);
    return number <= largest ? number : 0;
}

static int read_message(sim_fault_plan *plan, const char *value, char reason[SIM_REASON_BYTES])
{
    static const char *const manners[] = {
        [SIM_MESSAGE_NULL] = "null", [SIM_MESSAGE_BAD_BYTES] = "badbytes", [SIM_MESSAGE_STALE] = "stale"};
    for (int i = SIM_MESSAGE_NULL; i <= SIM_MESSAGE_STALE; ++i) {
        if (strcmp(value, manners[i]) == 0) {
            plan->message = (sim_message_manner)i;
            return 1;
        }
    }
    return complain(reason, "message is \"%.99s\"; expected null, badbytes or stale", value);
}

static int read_target(sim_fault_rule *rule, const char *name, char reason[SIM_REASON_BYTES])
{
    if (strcmp(name, "call") == 0) {
        rule->target = SIM_FAULT_OF_ANY_CALL;
        return 1;
    }
    if (strcmp(name, "allocation") == 0) {
        rule->target = SIM_FAULT_OF_ALLOCATION;
        return 1;
    }
    int is_task = strncmp(name, KERNEL, strlen(KERNEL)) == 0;
    rule->target = is_task ? SIM_FAULT_OF_TASK : SIM_FAULT_OF_CALL;
    rule->function = sim_function_find(is_task ? name + strlen(KERNEL) : name);
    if (rule->function == NULL) {
        return complain(reason,
            "\"%.99s\" is no target; expected a function of the simulator, kernel: and a function that queues work, "
            "call or allocation", name);
    }
    if (is_task && !rule->function->queues) {
        return complain(reason, "%s queues no work that could fail later", rule->function->name);
    }
    return 1;
}

/* What the target may fail with, for messages. */
static const char *failure_of(const sim_fault_rule *rule)
{
    switch (rule->target) {
    case SIM_FAULT_OF_ANY_CALL:
        return "fail";
    case SIM_FAULT_OF_ALLOCATION:
        return "exhausted";
    default:
        switch (rule->function->returns) {
        case SIM_RETURNS_POINTER:
            return "NULL";
        case SIM_RETURNS_VALUE:
            return NULL;
        default:
            return "a status, which is a number from 1 to 2147483647";
        }
    }
}

static int read_failure(sim_fault_rule *rule, const char *value, char reason[SIM_REASON_BYTES])
{
    const char *expected = failure_of(rule);
    if (expected == NULL) {
        return complain(reason, "%s cannot fail; it can take a delay", rule->function->name);
    }
    rule->fault.is_failure = 1;
    if (rule->function != NULL && rule->function->returns == SIM_RETURNS_STATUS) {
        rule->fault.status = (aclError)read_number(value, strlen(value), INT32_MAX);
        rule->fault.is_failure = rule->fault.status != 0;
    } else {
        rule->fault.is_failure = strcmp(value, expected) == 0;
    }
    return rule->fault.is_failure || complain(reason, "\"%.99s\" is no failure; expected %s", value, expected);
}

static int read_delay(sim_fault *fault, const char *value)
{
    size_t length = strlen(value);
    if (length < 3 || strcmp(value + length - 2, "ms") != 0) {
        return 0;
    }
    fault->delay_us = 1000 * read_number(value, length - 2, LONGEST_DELAY_MS);
    return fault->delay_us != 0;
}

static int read_option(sim_fault_rule *rule, const char *option, char reason[SIM_REASON_BYTES])
{
    sim_fault *fault = &rule->fault;
    int is_allocation = rule->target == SIM_FAULT_OF_ALLOCATION;
    if (strcmp(option, "after") == 0 && fault->is_failure && !is_allocation && !fault->is_rubbish) {
        fault->is_after = 1;
        return 1;
    }
    int is_sized = rule->target == SIM_FAULT_OF_CALL && rule->function->sizes;
    if (strcmp(option, "rubbish") == 0 && fault->is_failure && is_sized && !fault->is_after) {
        fault->is_rubbish = 1;
        return 1;
    }
    if (strncmp(option, "delay=", 6) == 0 && !is_allocation && read_delay(fault, option + 6)) {
        return 1;
    }
    return complain(reason,
        "\"%.99s\" cannot stand here; expected after behind a failure, rubbish behind that of a phase 1, or delay=Nms "
        "of 1 to %d, none of them with allocation", option, LONGEST_DELAY_MS);
}

/* TARGET#N=FAILURE:OPTION, cut to pieces. */
static int read_rule(sim_fault_rule *rule, char *entry, char reason[SIM_REASON_BYTES])
{
    char *options = strchr(entry, '#');
    if (options == NULL) {
        return complain(reason, "\"%.99s\" is no entry; expected count, message=... or TARGET#N=...", entry);
    }
    *options++ = '\0';
    if (!read_target(rule, entry, reason)) {
        return 0;
    }
    char *value = strsep(&options, ":");
    const char *number = strsep(&value, "=");
    rule->number = read_number(number, strlen(number), INT64_MAX);
    if (rule->number == 0 && strcmp(number, "*") != 0) {
        return complain(reason, "\"%.99s\" is no count; expected a number from 1, or *", number);
    }
    if (value == NULL && options == NULL) {
        return complain(reason, "%s#%s has nothing to happen; expected = and a failure, or :delay=Nms", entry, number);
    }
    int is_good = value == NULL || read_failure(rule, value, reason);
    while (is_good && options != NULL) {
        is_good = read_option(rule, strsep(&options, ":"), reason);
    }
    return is_good;
}

static char *trimmed(char *text)
{
    text += strspn(text, " ");
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ') {
        text[--length] = '\0';
    }
    return text;
}

static int read_entry(sim_fault_plan *plan, char *entry, char reason[SIM_REASON_BYTES])
{
    if (strcmp(entry, "count") == 0) {
        return 1;
    }
    if (strncmp(entry, "message=", 8) == 0) {
        return read_message(plan, entry + 8, reason);
    }
    return read_rule(&plan->rules[plan->count++], entry, reason);
}

sim_fault_plan *sim_fault_plan_read(const char *text, char reason[SIM_REASON_BYTES])
{
    size_t most = 1;
    for (const char *at = strchr(text, ';'); at != NULL; at = strchr(at + 1, ';')) {
        ++most;
    }
    sim_fault_plan *plan = calloc(1, sizeof *plan + most * sizeof plan->rules[0]);
    char *copy = strdup(text);
    int is_good = plan != NULL && copy != NULL;
    if (!is_good) {
        complain(reason, "the host has no memory for it");
    }
    char *rest = copy;
    for (char *entry; is_good && (entry = strsep(&rest, ";")) != NULL;) {
        is_good = read_entry(plan, trimmed(entry), reason);
    }
    free(copy);
    if (!is_good) {
        free(plan);
        return NULL;
    }
    return plan;
}
