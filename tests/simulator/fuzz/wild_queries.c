/* SPDX-License-Identifier: Apache-2.0 */
/* The rest of the runtime: versions, attributes, options, other ways to make streams, events and memory, and what is
   registered; with arguments of any kind. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"

enum { PAGE = 4096 };

static uint32_t any_bits32(world *w)
{
    return (uint32_t)(one_in(w, 2) ? below(w, 64) : any_bits(w));
}

static void versions(world *w)
{
    static char names[][16] = {"", "runtime", "cann", "opp", "nothing", "%s%n"};
    char *name = names[below(w, sizeof names / sizeof names[0])];
    char text[128] = "";
    int32_t number[3];
    aclCANNPackageVersion version;
    aclrtRunMode mode;
    (void)ANY(w, aclrtGetVersion(&number[0], &number[1], one_in(w, 8) ? NULL : &number[2]));
    (void)ANY(w, aclsysGetCANNVersion((aclCANNPackageName)between(w, -1, 9), one_in(w, 8) ? NULL : &version));
    (void)ANY(w, aclsysGetVersionStr(one_in(w, 8) ? NULL : name, one_in(w, 8) ? NULL : text));
    (void)ANY(w, aclsysGetVersionNum(one_in(w, 8) ? NULL : name, one_in(w, 8) ? NULL : number));
    (void)ANY(w, aclrtGetRunMode(one_in(w, 8) ? NULL : &mode));
    REQUIRE(w, aclrtGetSocName() != NULL, "there is no name of the product");
    (void)aclDataTypeSize((aclDataType)odd_number(w));
    (void)aclFloatToFloat16(aclFloat16ToFloat((aclFloat16)any_bits(w)));
}

static void devices(world *w)
{
    int64_t value;
    int32_t can, low, high;
    uint32_t flags, count;
    aclrtDeviceStatus status;
    aclrtFloatOverflowMode mode;
    const int32_t device = one_in(w, 2) ? w->good_device : (int32_t)odd_number(w);
    (void)ANY(w, aclrtGetDeviceInfo((uint32_t)device, (aclrtDevAttr)between(w, -1, 700), one_in(w, 8) ? NULL : &value));
    (void)ANY(w, aclGetDeviceCapability((uint32_t)device, (aclDeviceInfo)between(w, -2, 4), &value));
    (void)ANY(w, aclrtQueryDeviceStatus(device, one_in(w, 8) ? NULL : &status));
    (void)ANY(w, aclrtGetDeviceSatMode(one_in(w, 8) ? NULL : &mode));
    (void)ANY(w, aclrtSetDeviceSatMode((aclrtFloatOverflowMode)between(w, -1, 3)));
    (void)ANY(w, aclrtDeviceCanAccessPeer(one_in(w, 8) ? NULL : &can, device, (int32_t)between(w, -1, 9)));
    (void)ANY(w, aclrtGetPrimaryCtxState(device, one_in(w, 8) ? NULL : &flags, one_in(w, 8) ? NULL : &can));
    (void)ANY(w, aclrtDeviceGetStreamPriorityRange(&low, one_in(w, 8) ? NULL : &high));
    (void)ANY(w, aclrtGetStreamAvailableNum(one_in(w, 8) ? NULL : &count));
    (void)ANY(w, aclrtGetDevice(one_in(w, 8) ? NULL : &can));
    (void)ANY(w, aclrtSynchronizeDeviceWithTimeout((int32_t)between(w, -2, 100)));
}

static void options(world *w)
{
    int64_t value;
    aclrtErrorInfo info;
    const aclSysParamOpt option = (aclSysParamOpt)between(w, -1, 4);
    (void)ANY(w, aclrtCtxSetSysParamOpt(option, odd_number(w)));
    (void)ANY(w, aclrtCtxGetSysParamOpt(option, one_in(w, 8) ? NULL : &value));
    (void)ANY(w, aclrtGetSysParamOpt(option, one_in(w, 8) ? NULL : &value));
    (void)ANY(w, aclrtSetOpWaitTimeout(any_bits32(w)));
    (void)ANY(w, aclrtPeekAtLastError((aclrtLastErrLevel)between(w, -1, 2)));
    (void)ANY(w, aclrtGetLastError((aclrtLastErrLevel)between(w, -1, 2)));
    (void)ANY(w, aclrtGetErrorVerbose(w->good_device, one_in(w, 8) ? NULL : &info));
}

static void other_streams(world *w)
{
    aclrtStream stream = NULL;
    int32_t id;
    uint32_t priority, flags;
    aclrtStreamConfigHandle *config = aclrtCreateStreamConfigHandle();
    const uint32_t flag = any_bits32(w);
    uint64_t value = flag;
    (void)ANY(w, aclrtSetStreamConfigOpt(config, (aclrtStreamConfigAttr)between(w, -1, 5), one_in(w, 8) ? NULL : &value,
                                         4 * below(w, 3)));
    const int made = one_in(w, 2) ? ANY(w, aclrtCreateStreamV2(&stream, one_in(w, 8) ? NULL : config))
                                  : ANY(w, aclrtCreateStreamWithConfig(&stream, below(w, 9) == 0 ? any_bits32(w) : 0, flag));
    (void)ANY(w, aclrtDestroyStreamConfigHandle(config));
    if (made != 0) {
        return;
    }
    GOOD(w, aclrtStreamGetId(stream, &id));
    GOOD(w, aclrtStreamGetPriority(stream, &priority));
    (void)ANY(w, aclrtStreamGetFlags(stream, one_in(w, 8) ? NULL : &flags));
    (void)ANY(w, aclrtSetStreamFailureMode(stream, below(w, 4)));
    (void)ANY(w, aclrtSetStreamOverflowSwitch(stream, any_bits32(w)));
    (void)ANY(w, aclrtStreamAbort(stream));
    (void)ANY(w, one_in(w, 2) ? aclrtDestroyStreamForce(stream) : aclrtDestroyStream(stream));
    remember_stale(w, stream);
}

static void other_events(world *w)
{
    aclrtEvent event = NULL;
    uint32_t id;
    uint64_t stamp;
    aclrtEventWaitStatus status;
    aclrtStream stream = w->streams[below(w, STREAMS)];
    const uint32_t flag = any_bits32(w);
    const int made = one_in(w, 3) ? ANY(w, aclrtCreateEvent(&event))
                     : one_in(w, 2) ? ANY(w, aclrtCreateEventWithFlag(&event, flag))
                                    : ANY(w, aclrtCreateEventExWithFlag(&event, flag));
    if (made != 0) {
        return;
    }
    if (ANY(w, aclrtRecordEvent(event, stream)) == 0) {
        (void)ANY(w, aclrtStreamWaitEventWithTimeout(w->streams[below(w, STREAMS)], event, (int32_t)between(w, -1, 5)));
        (void)ANY(w, aclrtSynchronizeEventWithTimeout(event, (int32_t)between(w, -2, 100)));
    }
    (void)ANY(w, aclrtQueryEventWaitStatus(event, one_in(w, 8) ? NULL : &status));
    (void)ANY(w, aclrtEventGetTimestamp(event, &stamp));
    (void)ANY(w, aclrtGetEventId(event, one_in(w, 8) ? NULL : &id));
    (void)ANY(w, aclrtResetEvent(event, stream));
    GOOD(w, aclrtSynchronizeStream(stream));
    GOOD(w, aclrtDestroyEvent(event));
    remember_stale(w, event);
}

static void other_memory(world *w)
{
    void *made = NULL;
    const size_t bytes = one_in(w, 8) ? (size_t)odd_number(w) : 1 + below(w, 1 << 12);
    const aclrtMemMallocPolicy policy = (aclrtMemMallocPolicy)(one_in(w, 4) ? odd_number(w) : between(w, 0, 7));
    aclrtMallocConfig none = {NULL, 0};
    const int status = one_in(w, 3)   ? ANY(w, aclrtMallocAlign32(&made, bytes, policy))
                       : one_in(w, 2) ? ANY(w, aclrtMallocCached(&made, bytes, policy))
                                      : ANY(w, aclrtMallocWithCfg(&made, bytes, policy, one_in(w, 2) ? NULL : &none));
    if (status == 0) {
        const size_t words = bytes > PAGE ? (size_t)odd_number(w) | 1LL << 40 : bytes / 4; /* not gigabytes in earnest */
        (void)ANY(w, aclrtMemsetD32(made, bytes, (uint32_t)any_bits(w), words));
        (void)ANY(w, aclrtMemFlush(made, below(w, bytes) + 1));
        (void)ANY(w, aclrtMemInvalidate(made, bytes));
        GOOD(w, aclrtFreeWithDevSync(made));
        for (int i = 0; i < MOST_BLOCKS; i++) {
            w->blocks[i].stream = -1;
        }
        remember_stale(w, made);
    }
    if (ANY(w, aclrtMallocHostWithCfg(&made, 1 + below(w, 512), NULL)) == 0) {
        GOOD(w, aclrtFreeHostWithDevSync(made));
    }
}

static void registered_memory(world *w)
{
    uint8_t *host = aligned_alloc(PAGE, PAGE);
    void *mapped = NULL;
    const int status = one_in(w, 2) ? ANY(w, aclrtHostRegister(host, PAGE, (aclrtHostRegisterType)between(w, -1, 8), &mapped))
                                    : ANY(w, aclrtHostRegisterV2(host, PAGE, any_bits32(w)));
    if (status == 0) {
        (void)ANY(w, aclrtHostRegister(host + below(w, PAGE), 1 + below(w, PAGE), ACL_HOST_REGISTER_MAPPED, &mapped));
        (void)ANY(w, aclrtHostGetDevicePointer(host, one_in(w, 8) ? NULL : &mapped, any_bits32(w)));
        (void)ANY(w, aclrtMemset(host, PAGE, 7, PAGE));
        (void)ANY(w, aclrtHostUnregister(host + 1));
        (void)ANY(w, aclrtHostUnregister(host));
    }
    (void)ANY(w, aclrtHostUnregister(host));
    free(host);
}

void wild_queries_step(world *w)
{
    static void (*const steps[])(world *) = {versions,     devices,      options,          other_streams,
                                             other_events, other_memory, registered_memory};
    steps[below(w, sizeof steps / sizeof steps[0])](w);
}
