/* SPDX-License-Identifier: Apache-2.0 */
#include "core/untouched.h"

#include <stddef.h>
#include <string.h>

#include "core/checks.h"

#define REMEMBERED 8

static _Thread_local struct {
    const char *function;
    int status;
    const void *value;
} failures[REMEMBERED]; /* a ring; the newest failure of each function */
static _Thread_local unsigned next;

static void forget(const char *function)
{
    for (unsigned i = 0; i < REMEMBERED; ++i) {
        if (failures[i].function != NULL && strcmp(failures[i].function, function) == 0) {
            failures[i].function = NULL;
        }
    }
}

int sim_given(const char *function, int status, const void *out)
{
    if (sim_checking(SIM_CHECK_API)) {
        forget(function);
    }
    if (status == 0 || out == NULL || !sim_checking(SIM_CHECK_API)) {
        return status;
    }
    failures[next].function = function;
    failures[next].status = status;
    memcpy(&failures[next].value, out, sizeof failures[next].value);
    next = (next + 1) % REMEMBERED;
    return status;
}

int sim_report_untouched(const char *function, const char *parameter, const void *value, const char *maker)
{
    for (unsigned i = 0; i < REMEMBERED; ++i) {
        if (failures[i].function == NULL || failures[i].value != value ||
            (value == NULL && (maker == NULL || strcmp(failures[i].function, maker) != 0))) {
            continue;
        }
        sim_report(SIM_CHECK_API, "ignored_status", function,
            "%s is %p, which %s left as it was when it failed with %d on this thread; look at the status before using what "
            "a call was to give",
            parameter, value, failures[i].function, failures[i].status);
        return 1;
    }
    return 0;
}
