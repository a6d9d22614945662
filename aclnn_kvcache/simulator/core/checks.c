/* SPDX-License-Identifier: Apache-2.0 */
/* Which checks are on. What they find goes through check_report.c. */
#include "core/checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclsim/aclsim.h"
#include "core/host_touch.h"
#include "core/order.h"
#include "core/process.h"
#include "core/report.h"

#define VARIABLE "ACLSIM_CHECK"
#define REASON_BYTES 160
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What costs nothing and has always been said: calls that CANN lets through although their behaviour is undefined. */
#define BY_DEFAULT SIM_CHECK_API

static const struct {
    const char *name;
    sim_check check;
} names[] = {
    {"mem", SIM_CHECK_MEM},   {"init", SIM_CHECK_INIT}, {"race", SIM_CHECK_RACE},
    {"sync", SIM_CHECK_SYNC}, {"api", SIM_CHECK_API},   {"leak", SIM_CHECK_LEAK},
};

atomic_uint sim_checks_on = BY_DEFAULT;
static atomic_uint epoch;
static atomic_int is_wrong;      /* the environment's text */
static char wrong[REASON_BYTES]; /* how; written before any thread can read it */

static int is_word(const char *name, size_t length, const char *word)
{
    return strlen(word) == length && strncmp(word, name, length) == 0;
}

static unsigned check_of(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT(names); ++i) {
        if (is_word(name, length, names[i].name)) {
            return names[i].check;
        }
    }
    return 0;
}

/* The checks of a comma list. Of its wrong words the one to blame, else NULL: first what is nowhere known, then what only
   stands alone. */
static const char *parse_list(const char *text, unsigned *checks)
{
    const char *misplaced = NULL;
    for (;; ++text) {
        const size_t length = strcspn(text, ",");
        const unsigned check = check_of(text, length);
        *checks |= check;
        if (is_word(text, length, "all") || is_word(text, length, "none")) {
            misplaced = misplaced == NULL ? text : misplaced;
        } else if (check == 0) {
            return text;
        }
        text += length;
        if (*text == '\0') {
            return misplaced;
        }
    }
}

/* 0 with the reason for a text that is wrong. */
static int parse(const char *text, unsigned *checks, char reason[REASON_BYTES])
{
    *checks = 0;
    if (text == NULL || *text == '\0') {
        *checks = BY_DEFAULT;
        return 1;
    }
    if (strcmp(text, "none") == 0) {
        return 1;
    }
    if (strcmp(text, "all") == 0) {
        for (size_t i = 0; i < COUNT(names); ++i) {
            *checks |= names[i].check;
        }
        return 1;
    }
    const char *wrong_word = parse_list(text, checks);
    if (wrong_word == NULL) {
        return 1;
    }
    const size_t length = strcspn(wrong_word, ",");
    const int stands_alone = is_word(wrong_word, length, "all") || is_word(wrong_word, length, "none");
    snprintf(reason, REASON_BYTES,
        "\"%.*s\" is no check%s; expected all, none or a comma list of mem, init, race, sync, api and leak",
        length < 40 ? (int)length : 40, wrong_word, stands_alone ? " of a list" : "");
    return 0;
}

/* As the library is loaded, so that asking for a check is one load of memory. */
__attribute__((constructor)) static void read_variable(void)
{
    unsigned checks;
    if (parse(getenv(VARIABLE), &checks, wrong)) {
        atomic_store(&sim_checks_on, checks);
        sim_host_touch_watch((checks & SIM_CHECK_MEM) != 0);
    } else {
        atomic_store(&is_wrong, 1);
        fprintf(stderr, "aclsim: " VARIABLE ": %s\n", wrong);
    }
    sim_check_open_report();
}

aclError sim_check_require(const char *function, aclError status)
{
    return atomic_load(&is_wrong) ? sim_fail_variable(status, function, VARIABLE " is wrong: %s", wrong) : ACL_SUCCESS;
}

unsigned sim_check_epoch(void)
{
    return atomic_load(&epoch);
}

const char *sim_check_name(sim_check check)
{
    size_t i = 0;
    while (names[i].check != check) {
        ++i;
    }
    return names[i].name;
}

void sim_check_list(char *text, size_t bytes)
{
    size_t length = (size_t)snprintf(text, bytes, "[");
    for (size_t i = 0; i < COUNT(names); ++i) {
        if (sim_checking(names[i].check)) {
            length += (size_t)snprintf(text + length, bytes - length, "%s\"%s\"", length > 1 ? "," : "", names[i].name);
        }
    }
    snprintf(text + length, bytes - length, "]");
}

SIM_EXPORT int aclsim_set_checks(const char *text)
{
    unsigned checks;
    char reason[REASON_BYTES] = "this process was forked from one that uses the runtime";
    if (sim_process_forked() || !parse(text, &checks, reason)) {
        fprintf(stderr, "aclsim: aclsim_set_checks: %s\n", reason);
        return -1;
    }
    atomic_store(&is_wrong, 0);
    atomic_fetch_add(&epoch, 1);
    atomic_store(&sim_checks_on, checks);
    sim_host_touch_watch((checks & SIM_CHECK_MEM) != 0);
    sim_order_restart();
    return 0;
}
