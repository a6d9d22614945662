/* SPDX-License-Identifier: Apache-2.0 */
#include "core/untouched.h"

#include <stddef.h>
#include <string.h>

#include "core/checks.h"

#define REMEMBERED 8

typedef struct {
    const char *function; /* NULL in a place that is free */
    const void *value;
} failure;

static _Thread_local failure failures[REMEMBERED]; /* a ring; of each function the newest call */
static _Thread_local unsigned newest;

void sim_untouched_begin(const char *function, const void *out)
{
    if (out == NULL || !sim_checking(SIM_CHECK_API)) {
        return;
    }
    for (unsigned i = 0; i < REMEMBERED; ++i) {
        if (failures[i].function != NULL && strcmp(failures[i].function, function) == 0) {
            failures[i].function = NULL;
        }
    }
    newest = (newest + 1) % REMEMBERED;
    failures[newest].function = function;
    memcpy(&failures[newest].value, out, sizeof failures[newest].value);
}

void sim_untouched_end(void)
{
    failures[newest].function = NULL;
}

int sim_report_untouched(const char *function, const char *parameter, const void *value)
{
    for (unsigned i = 0; i < REMEMBERED; ++i) {
        const failure *f = &failures[i];
        const int is_left = f->function != NULL && f->value == value &&
            (value != NULL || strncmp(f->function, function, strlen(function)) == 0);
        if (is_left) {
            sim_report(SIM_CHECK_API, "ignored_status", function,
                "%s is %p, which is what the failed call of %s on this thread left there; look at the status before using "
                "what a call was to give",
                parameter, value, f->function);
            return 1;
        }
    }
    return 0;
}
