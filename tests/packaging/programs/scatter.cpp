/* SPDX-License-Identifier: Apache-2.0 */
/* The same in C++, as most programs for CANN are, with a cache whose rows are padded and a refused call. */
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>
#include "acl/acl.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"

#define CHECK_RET(cond, return_expr) \
    do {                             \
        if (!(cond)) {               \
            return_expr;             \
        }                            \
    } while (0)

#define LOG_PRINT(message, ...)              \
    do {                                     \
        std::printf(message, ##__VA_ARGS__); \
    } while (0)

constexpr int64_t T = 2, N = 2, B = 3, S = 4, D = 16, ROW = 24;

template <typename Value>
int CreateTensor(const std::vector<Value> &host, const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                 aclDataType type, void **device, aclTensor **tensor)
{
    auto bytes = host.size() * sizeof(Value);
    auto ret = aclrtMalloc(device, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMalloc failed. ERROR: %d\n", ret); return ret);
    ret = aclrtMemcpy(*device, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMemcpy failed. ERROR: %d\n", ret); return ret);
    const int64_t storage = static_cast<int64_t>(host.size());
    *tensor = aclCreateTensor(shape.data(), shape.size(), type, strides.data(), 0, aclFormat::ACL_FORMAT_ND, &storage, 1,
                              *device);
    return *tensor == nullptr;
}

int main()
{
    auto ret = aclInit(nullptr);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclInit failed. ERROR: %d\n", ret); return ret);
    ret = aclrtSetDevice(0);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtSetDevice failed. ERROR: %d\n", ret); return ret);
    aclrtStream stream = nullptr;
    ret = aclrtCreateStream(&stream);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtCreateStream failed. ERROR: %d\n", ret); return ret);

    std::vector<uint8_t> key(T * N * D, 0x31), value(T * N * D, 0x42);
    std::vector<uint8_t> keyCache(B * N * S * ROW, 0x01), valueCache(B * N * S * ROW, 0x02);
    std::vector<int32_t> slots = {9, 2};
    std::vector<float> keyScale = {1.0F, 2.0F, 3.0F, 4.0F}, keyScaleCache(B * N * S, -1.0F);
    const std::vector<int64_t> padded = {N * S * ROW, S * ROW, ROW, 1};

    void *device[7] = {};
    aclTensor *t[7] = {};
    const auto fp8 = aclDataType::ACL_FLOAT8_E5M2;
    int failed = CreateTensor(key, {T, N, D}, {N * D, D, 1}, fp8, &device[0], &t[0]) ||
                 CreateTensor(value, {T, N, D}, {N * D, D, 1}, fp8, &device[1], &t[1]) ||
                 CreateTensor(keyCache, {B, N, S, D}, padded, fp8, &device[2], &t[2]) ||
                 CreateTensor(valueCache, {B, N, S, D}, padded, fp8, &device[3], &t[3]) ||
                 CreateTensor(slots, {T}, {1}, aclDataType::ACL_INT32, &device[4], &t[4]) ||
                 CreateTensor(keyScale, {T, N}, {N, 1}, aclDataType::ACL_FLOAT, &device[5], &t[5]) ||
                 CreateTensor(keyScaleCache, {B, N, S, 1}, {N * S, S, 1, 1}, aclDataType::ACL_FLOAT, &device[6], &t[6]);
    CHECK_RET(!failed, return 1);

    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    ret = aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(nullptr, t[1], t[2], t[3], t[4], t[5], t[6], nullptr,
                                                          &workspaceSize, &executor);
    CHECK_RET(ret == 161001, LOG_PRINT("a null key was answered with %d\n", ret); return 1);

    ret = aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(t[0], t[1], t[2], t[3], t[4], t[5], t[6], nullptr,
                                                          &workspaceSize, &executor);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("phase 1 failed. ERROR: %d: %s\n", ret, aclGetRecentErrMsg()); return ret);
    void *workspace = nullptr;
    if (workspaceSize > 0) {
        ret = aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST);
        CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMalloc failed. ERROR: %d\n", ret); return ret);
    }
    std::unique_ptr<void, aclError (*)(void *)> guard(workspace, aclrtFree);
    ret = aclnnScatterPaKvCacheWithKScale(workspace, workspaceSize, executor, stream);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("phase 2 failed. ERROR: %d\n", ret); return ret);
    ret = aclrtSynchronizeStream(stream);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtSynchronizeStream failed. ERROR: %d\n", ret); return ret);
    guard.reset();

    std::vector<uint8_t> keyAfter(keyCache.size()), valueAfter(valueCache.size());
    std::vector<float> scaleAfter(keyScaleCache.size());
    const auto down = ACL_MEMCPY_DEVICE_TO_HOST;
    ret = aclrtMemcpy(keyAfter.data(), keyAfter.size(), device[2], keyAfter.size(), down);
    ret = ret ? ret : aclrtMemcpy(valueAfter.data(), valueAfter.size(), device[3], valueAfter.size(), down);
    ret = ret ? ret : aclrtMemcpy(scaleAfter.data(), scaleAfter.size() * 4, device[6], scaleAfter.size() * 4, down);
    CHECK_RET(ret == ACL_SUCCESS, LOG_PRINT("aclrtMemcpy failed. ERROR: %d\n", ret); return ret);
    for (int64_t token = 0; token < T; token++) {
        for (int64_t head = 0; head < N; head++) {
            const int64_t row = (slots[token] / S * N + head) * S + slots[token] % S;
            std::memset(&keyCache[row * ROW], 0x31, D);
            std::memset(&valueCache[row * ROW], 0x42, D);
            keyScaleCache[row] = keyScale[token * N + head];
        }
    }
    const bool good = keyAfter == keyCache && valueAfter == valueCache && scaleAfter == keyScaleCache;

    for (int i = 0; i < 7; i++) {
        aclDestroyTensor(t[i]);
        aclrtFree(device[i]);
    }
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    LOG_PRINT("%s\n", good ? "test pass" : "test failed");
    return good ? 0 : 1;
}
