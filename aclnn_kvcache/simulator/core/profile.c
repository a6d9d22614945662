/* SPDX-License-Identifier: Apache-2.0 */
#include "core/profile.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "aclsim/aclsim.h"
#include "core/device.h"
#include "core/process.h"
#include "core/report.h"

#define VARIABLE "ACLSIM_PROFILE"
#define REASON_BYTES 320
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
#define DIGITS "0123456789"

static const sim_profile by_default = {.soc = SIM_SOC_NAME, .devices = SIM_DEVICES};

/* The operators that have kernels; a bit each, by their place here. */
static const char *const operators[] = {"aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale"};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int frozen; /* with the lock */
static _Atomic(const sim_profile *) in_force = &by_default;
static char wrong[REASON_BYTES]; /* with the environment's */

static int read_soc(sim_profile *profile, const char *value)
{
    size_t length = strlen(value);
    if (strncmp(value, "Ascend", 6) != 0 || strspn(value, LETTERS) != length || length >= sizeof profile->soc) {
        return 0;
    }
    memcpy(profile->soc, value, length + 1);
    return 1;
}

static int read_devices(sim_profile *profile, const char *value)
{
    profile->devices = value[0] - '0';
    return strlen(value) == 1 && profile->devices >= 0 && profile->devices <= SIM_MOST_DEVICES;
}

static int read_cann(sim_profile *profile, const char *value)
{
    size_t length = 0;
    for (int part = 0; part < 3; ++part) {
        size_t digits = strspn(value + length, DIGITS);
        length += digits;
        if (digits < 1 || digits > 2 || value[length] != (part < 2 ? '.' : '\0')) {
            return 0;
        }
        length += part < 2;
    }
    memcpy(profile->cann, value, length + 1);
    return 1;
}

static unsigned operator_bit(const char *name)
{
    for (unsigned i = 0; i < COUNT(operators); ++i) {
        if (strcmp(name, operators[i]) == 0) {
            return 1U << i;
        }
    }
    return 0;
}

static int read_no_kernels(sim_profile *profile, const char *value)
{
    char name[64];
    for (;; ++value) {
        size_t length = strcspn(value, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, value);
        unsigned bit = operator_bit(name);
        profile->no_kernels |= bit;
        value += length;
        if (bit == 0 || *value == '\0') {
            return bit != 0;
        }
    }
}

static const struct {
    const char *key;
    int (*read)(sim_profile *profile, const char *value); /* 0 for a value that is wrong */
    const char *expected;
} keys[] = {
    {"soc", read_soc, "the name of a product, such as Ascend910B2"},
    {"devices", read_devices, "a number from 0 to 8"},
    {"cann", read_cann, "a version, such as 8.5.0"},
    {"no_kernels", read_no_kernels,
        "a comma list of aclnnScatterPaKvCacheWithKScale and aclnnQkvRmsNormRopeCacheWithKScale"},
};
_Static_assert(SIM_MOST_DEVICES == 8, "the number of devices is one digit, and stands in a text above");

/* What is kept is never freed: callers hold its texts. */
typedef struct kept {
    struct kept *older;
    sim_profile profile;
} kept;

static kept *newest; /* with the lock */

static int read_entry(sim_profile *profile, char *entry, unsigned *seen, char reason[REASON_BYTES])
{
    char *value = entry;
    const char *key = strsep(&value, "=");
    for (unsigned i = 0; i < COUNT(keys); ++i) {
        if (strcmp(key, keys[i].key) != 0) {
            continue;
        }
        if ((*seen & 1U << i) != 0) {
            snprintf(reason, REASON_BYTES, "%s is given twice", key);
            return 0;
        }
        *seen |= 1U << i;
        if (value != NULL && keys[i].read(profile, value)) {
            return 1;
        }
        snprintf(reason, REASON_BYTES, "%s is \"%.99s\"; expected %s", key, value == NULL ? "" : value,
            keys[i].expected);
        return 0;
    }
    snprintf(reason, REASON_BYTES, "\"%.99s\" is no key; expected soc, devices, cann or no_kernels, with = behind it", key);
    return 0;
}

/* With the lock. NULL with the reason for a text that is wrong. */
static const sim_profile *parse(const char *text, char reason[REASON_BYTES])
{
    if (text == NULL || *text == '\0') {
        return &by_default;
    }
    kept *made = malloc(sizeof *made);
    char *copy = strdup(text);
    int is_good = made != NULL && copy != NULL;
    if (is_good) {
        unsigned seen = 0;
        char *rest = copy;
        *made = (kept){newest, by_default};
        for (char *entry; is_good && (entry = strsep(&rest, ";")) != NULL;) {
            is_good = read_entry(&made->profile, entry, &seen, reason);
        }
    } else {
        snprintf(reason, REASON_BYTES, "the host has no memory for it");
    }
    free(copy);
    if (!is_good) {
        free(made);
        return NULL;
    }
    newest = made;
    return &made->profile;
}

static void read_variable(void)
{
    pthread_mutex_lock(&lock);
    const sim_profile *profile = parse(getenv(VARIABLE), wrong);
    pthread_mutex_unlock(&lock);
    if (profile == NULL) {
        fprintf(stderr, "aclsim: " VARIABLE ": %s\n", wrong);
    }
    atomic_store(&in_force, profile);
}

const sim_profile *sim_profile_in_force(void)
{
    pthread_once(&once, read_variable);
    return atomic_load(&in_force);
}

const sim_profile *sim_profile_require(const char *function, aclError status)
{
    const sim_profile *profile = sim_profile_in_force();
    if (profile == NULL) {
        sim_fail_variable(status, function, VARIABLE " is wrong: %s", wrong);
    }
    return profile;
}

int sim_profile_lacks_kernels(const sim_profile *profile, const char *operator_name)
{
    return strncmp(profile->soc, "Ascend950", 9) != 0 || (profile->no_kernels & operator_bit(operator_name)) != 0;
}

void sim_profile_freeze(int is_frozen)
{
    pthread_mutex_lock(&lock);
    frozen = is_frozen;
    pthread_mutex_unlock(&lock);
}

static const sim_profile *replace(const char *text, char reason[REASON_BYTES])
{
    if (sim_process_forked()) {
        snprintf(reason, REASON_BYTES, "this process was forked from one that uses the runtime");
        return NULL;
    }
    sim_profile_in_force(); /* the environment's comes first, so that it cannot come later */
    pthread_mutex_lock(&lock);
    const sim_profile *profile = NULL;
    if (frozen) {
        snprintf(reason, REASON_BYTES, "ACL is initialised; set the profile before aclInit or after finalising");
    } else if ((profile = parse(text, reason)) != NULL) {
        atomic_store(&in_force, profile);
    }
    pthread_mutex_unlock(&lock);
    return profile;
}

SIM_EXPORT int aclsim_set_profile(const char *text)
{
    char reason[REASON_BYTES];
    if (replace(text, reason) == NULL) {
        fprintf(stderr, "aclsim: aclsim_set_profile: %s\n", reason);
        return -1;
    }
    return 0;
}
