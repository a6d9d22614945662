/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/profile.h"
#include "core/report.h"

#define VARIABLE "ASCEND_RT_VISIBLE_DEVICES"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *variable;           /* NULL when it is not set */
static int visible[SIM_MOST_DEVICES]; /* what it lists */
static int listed;                    /* how many; -1 when it is malformed */
static atomic_int peers[SIM_MOST_DEVICES][SIM_MOST_DEVICES];

/* A comma list of devices in ascending order. */
static int parse(const char *text)
{
    int found = 0;
    for (int previous = -1;;) {
        char *end;
        long device = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || device <= previous || device >= SIM_MOST_DEVICES) {
            return -1;
        }
        visible[found++] = previous = (int)device;
        if (*end == '\0') {
            return found;
        }
        if (*end != ',') {
            return -1;
        }
        text = end + 1;
    }
}

static void read_variable(void)
{
    const char *text = getenv(VARIABLE);
    if (text != NULL && (variable = strdup(text)) != NULL) {
        listed = parse(variable);
    }
}

aclError sim_device_count(const char *function, int *count)
{
    const sim_profile *profile = sim_profile_require(function, ACL_ERROR_RT_NO_DEVICE);
    if (profile == NULL) {
        return ACL_ERROR_RT_NO_DEVICE;
    }
    pthread_once(&once, read_variable);
    *count = profile->devices;
    if (variable == NULL || *count == 0) {
        return ACL_SUCCESS;
    }
    if (listed < 0 || visible[listed - 1] >= *count) {
        return sim_fail_variable(ACL_ERROR_RT_NO_DEVICE, function,
            VARIABLE " is \"%s\"; expected an ascending comma list of numbers from 0 to %d", variable, *count - 1);
    }
    *count = listed;
    return ACL_SUCCESS;
}

aclError sim_device_check(const char *function, const char *parameter, int64_t device)
{
    int count;
    aclError status = sim_device_count(function, &count);
    if (status != ACL_SUCCESS) {
        return status;
    }
    if (count == 0) {
        return sim_fail(ACL_ERROR_RT_INVALID_DEVICEID, function, "%s is %lld; there is no device", parameter,
            (long long)device);
    }
    if (device < 0 || device >= count) {
        return sim_fail(ACL_ERROR_RT_INVALID_DEVICEID, function, "%s is %lld; expected 0 to %d", parameter,
            (long long)device, count - 1);
    }
    return ACL_SUCCESS;
}

const char *sim_device_soc_name(const char *function, aclError status)
{
    const sim_profile *profile = sim_profile_require(function, status);
    if (profile != NULL && profile->devices == 0) {
        sim_fail(status, function, "there is no device that tells the product's name");
        return NULL;
    }
    return profile == NULL ? NULL : profile->soc;
}

int sim_device_physical(int32_t device)
{
    return variable == NULL ? device : visible[device];
}

void sim_device_enable_peer(int32_t device, int32_t peer)
{
    atomic_store(&peers[device][peer], 1);
}

int sim_device_reaches(int32_t device, int32_t other)
{
    return device == other || atomic_load(&peers[device][other]);
}
