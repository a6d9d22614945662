/* SPDX-License-Identifier: Apache-2.0 */
/* A program as it is written for CANN: it knows nothing of this project and must build and run against it unchanged. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "acl/acl.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"

#define CHECK(call)                                                                          \
    do {                                                                                     \
        int status_ = (int)(call);                                                           \
        if (status_ != 0) {                                                                  \
            const char *text_ = aclGetRecentErrMsg();                                        \
            fprintf(stderr, "%s answered %d: %s\n", #call, status_, text_ ? text_ : "");     \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

enum { T = 3, N = 2, B = 2, S = 4, DK = 8, DV = 4 };

static int Upload(const void *host, size_t bytes, void **device)
{
    CHECK(aclrtMalloc(device, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(*device, bytes, host, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    return 0;
}

static aclTensor *Tensor(const int64_t *shape, uint64_t rank, aclDataType type, void *device)
{
    int64_t strides[4] = {1, 1, 1, 1};
    for (int64_t i = (int64_t)rank - 2; i >= 0; i--) {
        strides[i] = shape[i + 1] * strides[i + 1];
    }
    return aclCreateTensor(shape, rank, type, strides, 0, ACL_FORMAT_ND, shape, rank, device);
}

int main(void)
{
    static const int64_t slots[T] = {6, 0, 3};
    static uint8_t key[T][N][DK], value[T][N][DV], keyCache[B][N][S][DK], valueCache[B][N][S][DV];
    static float keyScale[T][N], keyScaleCache[B][N][S];
    for (int t = 0; t < T; t++) {
        for (int n = 0; n < N; n++) {
            memset(key[t][n], 0x10 + t * N + n, DK);
            memset(value[t][n], 0x20 + t * N + n, DV);
            keyScale[t][n] = 0.5F * (float)(t * N + n + 1);
        }
    }
    memset(keyCache, 0x7f, sizeof keyCache);
    memset(valueCache, 0x7e, sizeof valueCache);

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    aclrtStream stream = NULL;
    CHECK(aclrtCreateStream(&stream));

    void *host[7] = {key, value, keyCache, valueCache, (void *)slots, keyScale, keyScaleCache};
    const size_t bytes[7] = {sizeof key, sizeof value, sizeof keyCache, sizeof valueCache,
                             sizeof slots, sizeof keyScale, sizeof keyScaleCache};
    const int64_t shapes[7][4] = {{T, N, DK}, {T, N, DV}, {B, N, S, DK}, {B, N, S, DV}, {T}, {T, N}, {B, N, S, 1}};
    const uint64_t ranks[7] = {3, 3, 4, 4, 1, 2, 4};
    const aclDataType types[7] = {ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E4M3FN, ACL_FLOAT8_E4M3FN,
                                  ACL_INT64, ACL_FLOAT, ACL_FLOAT};
    void *device[7];
    aclTensor *tensors[7];
    for (int i = 0; i < 7; i++) {
        if (Upload(host[i], bytes[i], &device[i]) != 0) {
            return 1;
        }
        tensors[i] = Tensor(shapes[i], ranks[i], types[i], device[i]);
        if (tensors[i] == NULL) {
            return 1;
        }
    }

    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = NULL;
    void *workspace = NULL;
    CHECK(aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4],
                                                          tensors[5], tensors[6], NULL, &workspaceSize, &executor));
    if (workspaceSize > 0) {
        CHECK(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    CHECK(aclnnScatterPaKvCacheWithKScale(workspace, workspaceSize, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));

    static uint8_t keyAfter[B][N][S][DK], valueAfter[B][N][S][DV];
    static float scaleAfter[B][N][S];
    CHECK(aclrtMemcpy(keyAfter, sizeof keyAfter, device[2], sizeof keyAfter, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(aclrtMemcpy(valueAfter, sizeof valueAfter, device[3], sizeof valueAfter, ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(aclrtMemcpy(scaleAfter, sizeof scaleAfter, device[6], sizeof scaleAfter, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int t = 0; t < T; t++) {
        for (int n = 0; n < N; n++) {
            int64_t b = slots[t] / S, s = slots[t] % S;
            memcpy(keyCache[b][n][s], key[t][n], DK);
            memcpy(valueCache[b][n][s], value[t][n], DV);
            keyScaleCache[b][n][s] = keyScale[t][n];
        }
    }
    int good = memcmp(keyCache, keyAfter, sizeof keyCache) == 0 &&
               memcmp(valueCache, valueAfter, sizeof valueCache) == 0 &&
               memcmp(keyScaleCache, scaleAfter, sizeof keyScaleCache) == 0;

    for (int i = 0; i < 7; i++) {
        CHECK(aclDestroyTensor(tensors[i]));
        CHECK(aclrtFree(device[i]));
    }
    if (workspace != NULL) {
        CHECK(aclrtFree(workspace));
    }
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    puts(good ? "test pass" : "test failed");
    return good ? 0 : 1;
}
