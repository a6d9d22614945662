/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory, and the host memory that the runtime gives out. */
#include "acl/acl_rt.h"
#include "api.h"
#include "core/context.h"
#include "core/device.h"
#include "core/host_memory.h"
#include "core/in_flight.h"
#include "core/memory.h"
#include "core/stream.h"
#include "core/untouched.h"

#define SIZE_UNIT 32

/* Rounds up to the unit; 0 on overflow. On Ascend 950 nothing is added beyond that. */
static size_t rounded(size_t size)
{
    return (size + SIZE_UNIT - 1) / SIZE_UNIT * SIZE_UNIT;
}

static aclError allocate(const char *function, void **address, size_t bytes, size_t asked)
{
    int32_t device;
    sim_untouched_begin(function, address);
    if (bytes < asked) {
        return sim_fail(ACL_ERROR_INVALID_PARAM, function, "size is %zu, which rounds up to more than 64 bits hold",
            asked);
    }
    TRY(sim_context_current_device(function, &device));
    switch (sim_memory_allocate(function, device, asked, bytes, address)) {
    case SIM_MEMORY_OK:
        sim_untouched_end();
        return ACL_SUCCESS;
    case SIM_MEMORY_EXHAUSTED:
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, function,
            "size is %zu; device %d has %zu of its %llu bytes in use", asked, device, sim_memory_in_use(device),
            SIM_DEVICE_MEMORY);
    default:
        return sim_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, function,
            "size is %zu; the host refuses the simulator's memory", asked);
    }
}

static aclError check_size(const char *function, size_t size)
{
    if (size == 0) {
        return sim_fail(ACL_ERROR_INVALID_PARAM, function, "size is 0; expected a positive number of bytes");
    }
    return ACL_SUCCESS;
}

/* The policy steers page sizes, of which the simulator has one; unknown ones mean the default on CANN too. */
SIM_EXPORT aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ENTER(aclrtMalloc(devPtr, size, policy));
    REQUIRE(devPtr);
    TRY(check_size(__func__, size));
    (void)policy;
    return allocate(__func__, devPtr, rounded(size), size);
}

SIM_EXPORT aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ENTER(aclrtMallocAlign32(devPtr, size, policy));
    REQUIRE(devPtr);
    TRY(check_size(__func__, size));
    (void)policy;
    return allocate(__func__, devPtr, rounded(size), size);
}

SIM_EXPORT aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    ENTER(aclrtMallocCached(devPtr, size, policy));
    REQUIRE(devPtr);
    TRY(check_size(__func__, size));
    (void)policy;
    return allocate(__func__, devPtr, rounded(size), size);
}

/* A module number is a label; the other attributes place memory where the simulator has none. */
static aclError check_config(const char *function, const aclrtMallocConfig *cfg)
{
    if (cfg == NULL || cfg->numAttrs == 0) {
        return ACL_SUCCESS;
    }
    if (cfg->attrs == NULL) {
        return sim_fail_null(function, "cfg->attrs");
    }
    for (size_t i = 0; i < cfg->numAttrs; ++i) {
        switch (cfg->attrs[i].attr) {
        case ACL_RT_MEM_ATTR_RSV:
        case ACL_RT_MEM_ATTR_MODULE_ID:
            break;
        case ACL_RT_MEM_ATTR_DEVICE_ID:
        case ACL_RT_MEM_ATTR_VA_FLAG:
            return sim_unsupported(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function, "placing memory by attribute");
        default:
            return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "cfg->attrs[%zu].attr is %d; expected 0 to 3", i,
                (int)cfg->attrs[i].attr);
        }
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)
{
    ENTER(aclrtMallocWithCfg(devPtr, size, policy, cfg));
    REQUIRE(devPtr);
    TRY(check_size(__func__, size));
    TRY(check_config(__func__, cfg));
    (void)policy;
    return allocate(__func__, devPtr, size, size);
}

/* Reports work that still uses the memory. What is there next is other memory, for the checks too. */
static void let_go(const char *function, const void *address, size_t bytes)
{
    sim_in_flight_end(function, "freed_in_flight", address, bytes, "memory %p", address);
}

static aclError free_device(const char *function, void *address)
{
    void *start;
    size_t bytes;
    if (sim_order_watched() && sim_memory_find(address, &start, &bytes) && start == address) {
        let_go(function, address, bytes);
    }
    if (!sim_memory_free(function, address)) {
        sim_report_untouched(function, "devPtr", address);
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function,
            "devPtr is %p; expected the start of live device memory", address);
    }
    return ACL_SUCCESS;
}

static aclError synchronize_device(const char *function)
{
    int32_t device;
    TRY(sim_context_current_device(function, &device));
    return sim_streams_synchronize(function, device, -1);
}

SIM_EXPORT aclError aclrtFree(void *devPtr)
{
    ENTER(aclrtFree(devPtr));
    REQUIRE(devPtr);
    return free_device(__func__, devPtr);
}

SIM_EXPORT aclError aclrtFreeWithDevSync(void *devPtr)
{
    ENTER(aclrtFreeWithDevSync(devPtr));
    REQUIRE(devPtr);
    TRY(synchronize_device(__func__));
    return free_device(__func__, devPtr);
}

static aclError allocate_host(const char *function, void **address, size_t size)
{
    int32_t device;
    sim_untouched_begin(function, address);
    TRY(check_size(function, size));
    TRY(sim_context_current_device(function, &device));
    void *allocated = sim_host_allocate(function, size);
    if (allocated == NULL) {
        return sim_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, function, "size is %zu, which the host does not have", size);
    }
    *address = allocated;
    sim_untouched_end();
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    ENTER(aclrtMallocHost(hostPtr, size));
    REQUIRE(hostPtr);
    return allocate_host(__func__, hostPtr, size);
}

SIM_EXPORT aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg)
{
    ENTER(aclrtMallocHostWithCfg(ptr, size, cfg));
    REQUIRE(ptr);
    TRY(check_config(__func__, cfg));
    return allocate_host(__func__, ptr, size);
}

static aclError free_host(const char *function, void *address)
{
    size_t bytes;
    sim_host_kind kind;
    if (sim_order_watched() && sim_host_find(address, &bytes, &kind)) {
        let_go(function, address, bytes);
    }
    if (!sim_host_free(function, address)) {
        sim_host_report_freed(function, "double_free", "hostPtr", address);
        sim_report_untouched(function, "hostPtr", address);
        return sim_fail(ACL_ERROR_RT_PARAM_INVALID, function, "hostPtr is %p; expected live memory of aclrtMallocHost",
            address);
    }
    return ACL_SUCCESS;
}

SIM_EXPORT aclError aclrtFreeHost(void *hostPtr)
{
    ENTER(aclrtFreeHost(hostPtr));
    REQUIRE(hostPtr);
    return free_host(__func__, hostPtr);
}

SIM_EXPORT aclError aclrtFreeHostWithDevSync(void *hostPtr)
{
    ENTER(aclrtFreeHostWithDevSync(hostPtr));
    REQUIRE(hostPtr);
    TRY(synchronize_device(__func__));
    return free_host(__func__, hostPtr);
}
