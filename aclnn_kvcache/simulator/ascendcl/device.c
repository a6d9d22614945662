/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "acl/acl_rt.h"
#include "api.h"
#include "core/context.h"
#include "core/device.h"
#include "core/stream.h"

SIM_EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    ENTER(aclrtSetDevice(deviceId));
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    return sim_primary_retain(__func__, deviceId);
}

SIM_EXPORT aclError aclrtResetDevice(int32_t deviceId)
{
    ENTER(aclrtResetDevice(deviceId));
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    return sim_primary_release(__func__, deviceId, 0);
}

SIM_EXPORT aclError aclrtResetDeviceForce(int32_t deviceId)
{
    ENTER(aclrtResetDeviceForce(deviceId));
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    return sim_primary_release(__func__, deviceId, 1);
}

SIM_EXPORT aclError aclrtGetDevice(int32_t *deviceId)
{
    ENTER(aclrtGetDevice(deviceId));
    REQUIRE(deviceId);
    /* Asking whether there is one is no mistake. */
    return sim_current_device(deviceId) == ACL_SUCCESS ? ACL_SUCCESS : sim_context_none(__func__);
}

SIM_EXPORT aclError aclrtGetDeviceCount(uint32_t *count)
{
    ENTER(aclrtGetDeviceCount(count));
    REQUIRE(count);
    int devices;
    TRY(sim_device_count(__func__, &devices));
    if (devices == 0) {
        return FAIL(ACL_ERROR_RT_NO_DEVICE, "there is no device");
    }
    *count = (uint32_t)devices;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtSynchronizeDevice(void)
{
    ENTER(aclrtSynchronizeDevice());
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    return sim_streams_synchronize(__func__, device, -1);
}

SIM_EXPORT aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    ENTER(aclrtSynchronizeDeviceWithTimeout(timeout));
    REQUIRE_TIMEOUT(timeout);
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    return sim_streams_synchronize(__func__, device, timeout);
}

SIM_EXPORT aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    ENTER(aclrtQueryDeviceStatus(deviceId, deviceStatus));
    REQUIRE(deviceStatus);
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

/* What is known of the simulated product. */
static const struct {
    aclrtDevAttr attr;
    int64_t value;
} attributes[] = {
    {ACL_DEV_ATTR_AICORE_CORE_NUM, SIM_CUBE_CORES},
    {ACL_DEV_ATTR_CUBE_CORE_NUM, SIM_CUBE_CORES},
    {ACL_DEV_ATTR_VECTOR_CORE_NUM, SIM_VECTOR_CORES},
    {ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, (int64_t)SIM_DEVICE_MEMORY},
    {ACL_DEV_ATTR_IS_VIRTUAL, 0},
};

/* The architecture of a product by the beginning of its name, the longest first. */
static const struct {
    const char *product;
    int64_t architecture;
} architectures[] = {
    {"Ascend950", 3510}, {"Ascend910B", 2201}, {"Ascend910_93", 2201},
    {"Ascend310P", 2002}, {"Ascend310B", 3002}, {"Ascend910", 1001},
};

/* First and last number of each range of attributes that exist. */
static const int attribute_ranges[][2] = {{1, 1}, {101, 102}, {201, 212}, {301, 302}, {401, 408}, {501, 501}, {601, 601}};

static int attribute_exists(int attr)
{
    for (size_t i = 0; i < sizeof attribute_ranges / sizeof *attribute_ranges; ++i) {
        if (attr >= attribute_ranges[i][0] && attr <= attribute_ranges[i][1]) {
            return 1;
        }
    }
    return 0;
}

SIM_EXPORT aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value)
{
    ENTER(aclrtGetDeviceInfo(deviceId, attr, value));
    REQUIRE(value);
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    if (attr == ACL_DEV_ATTR_PHY_CHIP_ID) {
        *value = sim_device_physical((int32_t)deviceId);
        return ACL_SUCCESS;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; ++i) {
        if (attributes[i].attr == attr) {
            *value = attributes[i].value;
            return ACL_SUCCESS;
        }
    }
    const char *soc = sim_device_soc_name(__func__, ACL_ERROR_RT_NO_DEVICE);
    for (size_t i = 0; attr == ACL_DEV_ATTR_NPU_ARCH && i < sizeof architectures / sizeof *architectures; ++i) {
        if (strncmp(soc, architectures[i].product, strlen(architectures[i].product)) == 0) {
            *value = architectures[i].architecture;
            return ACL_SUCCESS;
        }
    }
    if (attribute_exists((int)attr)) {
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "the value of this attribute is not known");
    }
    return FAIL(ACL_ERROR_RT_PARAM_INVALID, "attr is %d; expected an aclrtDevAttr", (int)attr);
}

SIM_EXPORT aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
    ENTER(aclGetDeviceCapability(deviceId, deviceInfo, value));
    REQUIRE(value);
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = SIM_CUBE_CORES;
        return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = SIM_VECTOR_CORES;
        return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "the size of the L2 cache is not known");
    default:
        return FAIL(ACL_ERROR_INVALID_PARAM, "deviceInfo is %d; expected an aclDeviceInfo", (int)deviceInfo);
    }
}

SIM_EXPORT aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    ENTER(aclrtSetDeviceSatMode(mode));
    if ((unsigned)mode >= ACL_RT_OVERFLOW_MODE_UNDEF) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "mode is %d; expected 0 or 1", (int)mode);
    }
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    if (mode == ACL_RT_OVERFLOW_MODE_SATURATION) {
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "kernels compute with Inf and NaN only");
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    ENTER(aclrtGetDeviceSatMode(mode));
    REQUIRE(mode);
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    *mode = ACL_RT_OVERFLOW_MODE_INFNAN;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)
{
    ENTER(aclrtDeviceCanAccessPeer(canAccessPeer, deviceId, peerDeviceId));
    REQUIRE(canAccessPeer);
    TRY(sim_device_check(__func__, "deviceId", deviceId));
    TRY(sim_device_check(__func__, "peerDeviceId", peerDeviceId));
    if (deviceId == peerDeviceId) {
        return FAIL(ACL_ERROR_RT_INVALID_DEVICEID, "peerDeviceId is %d; expected another device", peerDeviceId);
    }
    *canAccessPeer = 1;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    ENTER(aclrtDeviceEnablePeerAccess(peerDeviceId, flags));
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    TRY(sim_device_check(__func__, "peerDeviceId", peerDeviceId));
    if (peerDeviceId == device) {
        return FAIL(ACL_ERROR_RT_INVALID_DEVICEID, "peerDeviceId is %d; expected another device", peerDeviceId);
    }
    if (flags != 0) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flags is %u; expected 0", flags);
    }
    sim_device_enable_peer(device, peerDeviceId);
    return ACL_SUCCESS;
}
