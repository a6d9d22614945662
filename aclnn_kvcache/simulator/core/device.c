/* SPDX-License-Identifier: Apache-2.0 */
#include "core/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/report.h"

#define VARIABLE "ASCEND_RT_VISIBLE_DEVICES"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int visible[SIM_DEVICES] = {0, 1};
static int count = SIM_DEVICES;
static atomic_int peers[SIM_DEVICES][SIM_DEVICES];

/* A comma list of existing devices in ascending order. */
static int parse(const char *text)
{
    int found = 0;
    for (int previous = -1;;) {
        char *end;
        long device = strtol(text, &end, 10);
        if (*text < '0' || *text > '9' || device <= previous || device >= SIM_DEVICES) {
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
    if (text != NULL) {
        count = parse(text);
    }
}

int sim_device_count(void)
{
    pthread_once(&once, read_variable);
    return count;
}

aclError sim_device_check(const char *function, const char *parameter, int64_t device)
{
    int devices = sim_device_count();
    if (devices < 0) {
        return sim_fail(ACL_ERROR_RT_NO_DEVICE, function,
            VARIABLE " is \"%s\"; expected an ascending comma list of numbers from 0 to %d", getenv(VARIABLE),
            SIM_DEVICES - 1);
    }
    if (device < 0 || device >= devices) {
        return sim_fail(ACL_ERROR_RT_INVALID_DEVICEID, function, "%s is %lld; expected 0 to %d", parameter,
            (long long)device, devices - 1);
    }
    return ACL_SUCCESS;
}

int sim_device_physical(int32_t device)
{
    return visible[device];
}

void sim_device_enable_peer(int32_t device, int32_t peer)
{
    atomic_store(&peers[device][peer], 1);
}

int sim_device_reaches(int32_t device, int32_t other)
{
    return device == other || atomic_load(&peers[device][other]);
}
