/* SPDX-License-Identifier: Apache-2.0 */
#include "core/handle_report.h"

#include <stdio.h>
#include <string.h>

#include "core/checks.h"
#include "core/untouched.h"

/* Names, and what CANN does with one that ended. */
static const struct {
    const char *name;
    const char *consequence;
} kinds[SIM_KINDS] = {
    [SIM_CONTEXT] = {"a context", "CANN before 9.1.0 does not notice"},
    [SIM_STREAM] = {"a stream", "CANN before 9.1.0 does not notice"},
    [SIM_STREAM_CONFIG] = {"a stream configuration", "CANN reads freed memory"},
    [SIM_EVENT] = {"an event", "CANN before 9.1.0 does not notice"},
    [SIM_TENSOR] = {"a tensor", "CANN reads freed memory"},
    [SIM_SCALAR] = {"a scalar", "CANN reads freed memory"},
    [SIM_INT_ARRAY] = {"an int array", "CANN reads freed memory"},
    [SIM_FLOAT_ARRAY] = {"a float array", "CANN reads freed memory"},
    [SIM_BOOL_ARRAY] = {"a bool array", "CANN reads freed memory"},
    [SIM_TENSOR_LIST] = {"a tensor list", "CANN reads freed memory"},
    [SIM_SCALAR_LIST] = {"a scalar list", "CANN reads freed memory"},
    [SIM_EXECUTOR] = {"an executor", "CANN reads freed memory"},
};

/* "a tensor, number 7, made by aclCreateTensor", or less where that is not known. */
static void describe(const sim_handle_facts *facts, char text[SIM_ORIGIN_BYTES + 32])
{
    char origin[SIM_ORIGIN_BYTES] = "";
    if (facts->origin.function != NULL) {
        sim_origin_describe(&facts->origin, origin);
    }
    snprintf(text, SIM_ORIGIN_BYTES + 32, "%s%s%s", kinds[facts->kind].name, *origin == '\0' ? "" : ", ", origin);
}

static void report_ended(const char *function, const char *parameter, const void *handle, const sim_handle_facts *facts)
{
    char what[SIM_ORIGIN_BYTES + 32];
    char end[128] = "was ended before";
    describe(facts, what);
    if (facts->ended_by != NULL) {
        snprintf(end, sizeof end, "%s has ended", facts->ended_by);
    }
    /* Phase 2 ends an executor by running it; what creates and destroys is called acl or aclrt. */
    const int is_consumed = facts->kind == SIM_EXECUTOR && facts->ended_by != NULL &&
        strncmp(facts->ended_by, "aclnn", strlen("aclnn")) == 0;
    sim_report(SIM_CHECK_API, is_consumed ? "consumed_executor" : "destroyed_handle", function,
        "%s is %p, %s, which %s; %s%s: %s", parameter, handle, what, end, kinds[facts->kind].consequence,
        facts->is_replaced ? ", and may take what was made in its place since for it" : "",
        is_consumed ? "call phase 1 again before each phase 2, and destroy only executors that were made repeatable"
                    : "end it once, behind its last use");
}

void sim_report_handle(const char *function, const char *parameter, sim_kind wanted, const void *handle)
{
    if (!sim_checking(SIM_CHECK_API) || sim_report_untouched(function, parameter, handle)) {
        return;
    }
    const sim_handle_facts facts = sim_handle_look(handle);
    if (facts.state == SIM_NEVER_A_HANDLE) {
        sim_report(SIM_CHECK_API, "unknown_handle", function, "%s is %p, which nothing ever gave out; expected %s",
            parameter, handle, kinds[wanted].name);
    } else if (facts.kind != wanted) {
        char what[SIM_ORIGIN_BYTES + 32];
        describe(&facts, what);
        sim_report(SIM_CHECK_API, "handle_of_another_kind", function, "%s is %p, %s%s; expected %s", parameter, handle,
            what, facts.state == SIM_ENDED_HANDLE ? ", which was ended" : "", kinds[wanted].name);
    } else {
        report_ended(function, parameter, handle, &facts);
    }
}
