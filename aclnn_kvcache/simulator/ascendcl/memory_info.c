/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about memory, and registration of the program's own. */
#include <unistd.h>

#include "acl/acl_rt.h"
#include "api.h"
#include "core/context.h"
#include "core/device.h"
#include "core/host_memory.h"
#include "core/memory.h"

#define HUGE_PAGE (2U << 20)
#define HUGE_PAGE_FROM (1U << 20)
#define REGISTER_FLAGS (ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED)

/* The product has high-bandwidth memory and no other. */
static int is_ddr(aclrtMemAttr attr)
{
    return attr == ACL_DDR_MEM || attr == ACL_DDR_MEM_HUGE || attr == ACL_DDR_MEM_NORMAL ||
        attr == ACL_DDR_MEM_P2P_HUGE || attr == ACL_DDR_MEM_P2P_NORMAL;
}

SIM_EXPORT aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    ENTER(aclrtGetMemInfo(attr, free, total));
    REQUIRE(free);
    REQUIRE(total);
    if ((unsigned)attr > ACL_MEM_P2P_HUGE1G) {
        return FAIL(ACL_ERROR_RT_INVALID_MEMORY_TYPE, "attr is %d; expected 0 to %d", (int)attr, ACL_MEM_P2P_HUGE1G);
    }
    int32_t device;
    TRY(sim_context_current_device(__func__, &device));
    *total = is_ddr(attr) ? 0 : SIM_DEVICE_MEMORY;
    *free = is_ddr(attr) ? 0 : SIM_DEVICE_MEMORY - sim_memory_in_use(device);
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
    ENTER(aclrtPointerGetAttributes(ptr, attributes));
    REQUIRE(ptr);
    REQUIRE(attributes);
    void *start;
    size_t bytes;
    int32_t device;
    sim_host_kind kind;
    *attributes = (aclrtPtrAttributes){.location.type = ACL_MEM_LOCATION_TYPE_UNREGISTERED};
    if (sim_memory_find(ptr, &start, &bytes) && sim_memory_is_device(ptr, &device)) {
        attributes->location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
        attributes->location.id = (uint32_t)device;
        attributes->pageSize = bytes > HUGE_PAGE_FROM ? HUGE_PAGE : (uint32_t)sysconf(_SC_PAGESIZE);
    } else if (sim_host_find(ptr, &bytes, &kind)) {
        attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
        attributes->pageSize = (uint32_t)sysconf(_SC_PAGESIZE);
    }
    return ACL_SUCCESS;
}

static aclError register_range(const char *function, void *ptr, uint64_t size, sim_host_kind kind)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int32_t device;
    if (size == 0 || size % page != 0 || (uintptr_t)ptr % page != 0) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
            "ptr is %p and size %llu; expected multiples of the page of %llu bytes", ptr, (unsigned long long)size,
            (unsigned long long)page);
    }
    if (sim_memory_is_device(ptr, &device)) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "ptr is %p of device %d; expected host memory", ptr,
            device);
    }
    TRY(sim_context_current_device(function, &device));
    if (!sim_host_register(function, ptr, size, kind)) {
        return sim_fail(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, function,
            "a part of the %llu bytes at %p is registered already", (unsigned long long)size, ptr);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)
{
    ENTER(aclrtHostRegister(ptr, size, type, devPtr));
    REQUIRE(ptr);
    REQUIRE(devPtr);
    if (type != ACL_HOST_REGISTER_MAPPED && type != ACL_HOST_REGISTER_IOMEMORY && type != ACL_HOST_REGISTER_READONLY) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "type is %d; expected an aclrtHostRegisterType", (int)type);
    }
    if (type != ACL_HOST_REGISTER_MAPPED) {
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__, "only ACL_HOST_REGISTER_MAPPED is");
    }
    TRY(register_range(__func__, ptr, size, SIM_HOST_MAPPED));
    *devPtr = ptr;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
    ENTER(aclrtHostRegisterV2(ptr, size, flag));
    REQUIRE(ptr);
    if (flag == 0 || (flag & ~REGISTER_FLAGS) != 0) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag is 0x%x; expected one or more of 0x%x", flag, REGISTER_FLAGS);
    }
    if ((flag & (ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY)) != 0) {
        return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__,
            "only ACL_HOST_REG_MAPPED and ACL_HOST_REG_PINNED are");
    }
    return register_range(__func__, ptr, size, flag & ACL_HOST_REG_MAPPED ? SIM_HOST_MAPPED : SIM_HOST_REGISTERED);
}

SIM_EXPORT aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag)
{
    ENTER(aclrtHostGetDevicePointer(pHost, pDevice, flag));
    REQUIRE(pHost);
    REQUIRE(pDevice);
    if (flag != 0) {
        return FAIL(ACL_ERROR_RT_PARAM_INVALID, "flag is %u; expected 0", flag);
    }
    size_t bytes;
    sim_host_kind kind;
    if (!sim_host_find(pHost, &bytes, &kind) || kind != SIM_HOST_MAPPED) {
        return FAIL(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "pHost is %p; expected memory registered as mapped", pHost);
    }
    *pDevice = pHost;
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtHostUnregister(void *ptr)
{
    ENTER(aclrtHostUnregister(ptr));
    REQUIRE(ptr);
    if (!sim_host_unregister(ptr)) {
        return FAIL(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "ptr is %p; expected the start of registered memory", ptr);
    }
    return ACL_SUCCESS;
}

/* The simulator has no cache between host and device, so a valid range is all there is to see to. */
static aclError check_cached_range(const char *function, const void *address, size_t size)
{
    if (address == NULL) {
        return sim_fail_null(function, "devPtr");
    }
    if (size == 0) {
        return sim_fail(ACL_ERROR_INVALID_PARAM, function, "size is 0; expected a positive number of bytes");
    }
    if (sim_memory_resolve(address, size) == NULL) {
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
            "devPtr is %p and size %zu; expected a range inside live device memory", address, size);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtMemFlush(void *devPtr, size_t size)
{
    ENTER(aclrtMemFlush(devPtr, size));
    return check_cached_range(__func__, devPtr, size);
}

SIM_EXPORT aclError aclrtMemInvalidate(void *devPtr, size_t size)
{
    ENTER(aclrtMemInvalidate(devPtr, size));
    return check_cached_range(__func__, devPtr, size);
}
