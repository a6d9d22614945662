/* SPDX-License-Identifier: Apache-2.0 */
/* Operators on tensors of any kind: phase 1 must answer, and what it accepts must run or fault, on the wild device. */
#include <stdlib.h>
#include <string.h>
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"
#include "fuzz.h"
#include "revision.h"

enum { MOST_TENSORS = QKV_TENSORS, MOST_ELEMENTS = 1 << 20, ROOM = 1 << 16 };

static const aclDataType dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_INT32, ACL_INT64, ACL_BF16, ACL_FLOAT8_E5M2,
                                     ACL_FLOAT8_E4M3FN, ACL_UINT8, ACL_HIFLOAT8, ACL_BOOL, ACL_DT_UNDEFINED};
static const int formats[] = {-1, 0, 1, 2, 3, 4, 12, 16, 27, 29, 30, 32, 33, 35, 47, 50, 51, 52, 53, 54, 1000};

static int64_t odd_extent(world *w)
{
    return one_in(w, 3) ? odd_number(w) : between(w, 0, 9);
}

/* Whether the tensor has few elements and, in strides, offset and extents, nothing that leaves 4 GiB. */
static bool is_small(const int64_t *dims, const int64_t *strides, uint64_t rank, int64_t offset)
{
    __int128 elements = 1;
    __int128 reach = offset < 0 ? -(__int128)offset : offset;
    for (uint64_t i = 0; i < rank; i++) {
        const __int128 extent = dims[i] < 0 ? 0 : dims[i];
        const __int128 stride = strides[i] < 0 ? -(__int128)strides[i] : strides[i];
        elements *= extent;
        reach += extent * stride;
        if (elements > MOST_ELEMENTS || reach > 1 << 28) {
            return false;
        }
    }
    return true;
}

/* A tensor as a call that could run wants it, but for one thing that is spoilt. */
static aclTensor *make(world *w, const wanted *z, void *base, uint64_t spoilt, bool *small)
{
    int64_t dims[MOST_RANK], strides[MOST_RANK], storage[MOST_RANK];
    uint64_t rank = z->rank;
    uint64_t storage_rank = 1;
    int64_t offset = 0;
    aclDataType dtype = z->dtype;
    int format = ACL_FORMAT_ND;
    memcpy(dims, z->dims, sizeof z->dims);
    storage[0] = ROOM;
    bool own_strides = false;
    switch (spoilt) {
    case 1:
        rank = one_in(w, 3) ? (one_in(w, 2) ? 0 : MOST_RANK) : below(w, 8);
        for (uint64_t i = 0; i < rank; i++) {
            dims[i] = odd_extent(w);
        }
        break;
    case 2:
        dims[below(w, 4)] = odd_extent(w);
        break;
    case 3:
        dtype = dtypes[below(w, sizeof dtypes / sizeof dtypes[0])];
        break;
    case 4:
        format = formats[below(w, sizeof formats / sizeof formats[0])];
        break;
    case 5:
        offset = one_in(w, 2) ? odd_number(w) : between(w, 0, 2 * ROOM);
        break;
    case 6:
        storage_rank = below(w, 5);
        for (uint64_t i = 0; i < storage_rank; i++) {
            storage[i] = odd_extent(w);
        }
        break;
    case 7:
        own_strides = true;
        break;
    default:
        break;
    }
    int64_t stride = 1;
    for (uint64_t i = rank; i-- > 0;) {
        strides[i] = own_strides && one_in(w, 2) ? odd_number(w) : stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)(dims[i] > 0 ? dims[i] : 1));
    }
    *small = *small && is_small(dims, strides, rank, offset);
    return aclCreateTensor(dims, rank, dtype, strides, offset, (aclFormat)format, storage, storage_rank, base);
}

aclTensor *wild_tensor(world *w, void *base, bool *small)
{
    const wanted z = {dtypes[below(w, sizeof dtypes / sizeof dtypes[0])], {2, 3, 4, 5}, below(w, 5)};
    return make(w, &z, base, 1 + below(w, 7), small);
}

static size_t scatter_wants(world *w, wanted *z)
{
    const int64_t t = between(w, 0, 6), n = between(w, 1, 3), s = between(w, 1, 4), b = between(w, 1, 3);
    const int64_t dk = between(w, 1, 16), dv = between(w, 1, 16);
    const aclDataType fp8 = one_in(w, 2) ? ACL_FLOAT8_E5M2 : ACL_FLOAT8_E4M3FN;
    const wanted call[] = {{fp8, {t, n, dk}, 3}, {fp8, {t, n, dv}, 3}, {fp8, {b, n, s, dk}, 4}, {fp8, {b, n, s, dv}, 4},
                           {one_in(w, 2) ? ACL_INT32 : ACL_INT64, {t}, 1}, {ACL_FLOAT, {t, n}, 2},
                           {ACL_FLOAT, {b, n, s, 1}, 4}};
    memcpy(z, call, sizeof call);
    return sizeof call / sizeof call[0];
}

static size_t fused_wants(world *w, wanted *z, int64_t heads[3], int *scene)
{
    qkv_sizes sizes = {.scene = (int)below(w, SCENES), .tokens = between(w, 1, 6), .rows = between(w, 1, 9)};
    sizes.k = between(w, 1, 2);
    sizes.q = REVISION == 'A' ? between(w, 1, 4) : 8 * sizes.k;
    sizes.blocks = between(w, 1, 3);
    sizes.block_size = between(w, 1, 4);
    sizes.batches = between(w, 1, 3);
    sizes.tnd_in = true;
    sizes.tnd_out = sizes.scene != ROPE;
    qkv_wants(&sizes, z);
    heads[0] = sizes.q;
    heads[1] = heads[2] = sizes.k;
    *scene = sizes.scene;
    return QKV_TENSORS;
}

/* Mostly the right one. */
static const char *some_text(world *w, const char *right)
{
    static const char *const texts[] = {NULL, "", "TND", "NTD", "tnd", "BNBD", "NoQuant", "Mx", "\xff%s%n"};
    return one_in(w, 8) ? texts[below(w, sizeof texts / sizeof texts[0])] : right;
}

static int phase1(world *w, bool is_qkv, aclTensor **t, const qkv_options *options, uint64_t *bytes,
                  aclOpExecutor **executor)
{
    if (!is_qkv) {
        return ANY(w, aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(t[0], t[1], t[2], t[3], t[4], t[5], t[6], NULL, bytes,
                                                                     executor));
    }
    return ANY(w, qkv_phase1(t, options, bytes, executor));
}

/* Phase 2, with the workspace it needs or another, on the stream or on none. */
static void launch(world *w, bool is_qkv, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream)
{
    void *workspace = NULL;
    if (bytes > 0 && !one_in(w, 8) && bytes < UINT32_MAX) {
        (void)ANY(w, aclrtMalloc(&workspace, one_in(w, 8) ? 64 : bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    const uint64_t stated = one_in(w, 8) ? (uint64_t)odd_number(w) : bytes;
    aclrtStream on = one_in(w, 16) ? (aclrtStream)(uintptr_t)wild_pointer(w) : stream;
    const int runs = one_in(w, 8) ? 2 : 1;
    for (int i = 0; i < runs; i++) {
        if (is_qkv == !one_in(w, 32)) {
            (void)ANY(w, aclnnQkvRmsNormRopeCacheWithKScale(workspace, stated, executor, on));
        } else {
            (void)ANY(w, aclnnScatterPaKvCacheWithKScale(workspace, stated, executor, on));
        }
    }
    (void)ANY(w, aclrtSynchronizeStream(stream));
    (void)ANY(w, aclrtSynchronizeStream(NULL));
    if (workspace != NULL) {
        GOOD(w, aclrtFree(workspace));
    }
}

static void call(world *w, uint8_t *base, aclrtStream stream)
{
    wanted z[MOST_TENSORS];
    aclTensor *made[MOST_TENSORS], *given[MOST_TENSORS];
    int64_t heads[3] = {1, 1, 1};
    int64_t turns[3] = {24, 20, 20};
    int scene = ROPE;
    const bool is_qkv = one_in(w, 2);
    const size_t count = is_qkv ? fused_wants(w, z, heads, &scene) : scatter_wants(w, z);
    bool small = true;
    for (size_t i = 0; i < count; i++) {
        given[i] = made[i] = NULL;
        if (is_qkv && z[i].rank == 0 && !one_in(w, 32)) {
            continue; /* not in this scene */
        }
        const uint64_t spoilt = one_in(w, count) ? 1 + below(w, 7) : 0;
        /* Nowhere, or at the end of the allocation, or inside; an address of the good device could be reached past. */
        void *at = base + (one_in(w, 16) ? ROOM - below(w, 8) : below(w, 32) * 64);
        at = one_in(w, 32) ? (one_in(w, 2) ? NULL : (void *)(UINTPTR_MAX - 63)) : at;
        given[i] = made[i] = make(w, &z[i], at, spoilt, &small);
        REQUIRE(w, made[i] != NULL, "no tensor was made");
        if (one_in(w, 64)) {
            given[i] = (aclTensor *)(uintptr_t)wild_pointer(w);
        }
    }
    heads[below(w, 3)] = one_in(w, 16) ? odd_number(w) : heads[1];
    aclIntArray *array = aclCreateIntArray(heads, one_in(w, 32) ? below(w, 3) : 3);
    turns[below(w, 3)] = one_in(w, 8) ? odd_number(w) : 20;
    aclIntArray *section = aclCreateIntArray(turns, one_in(w, 32) ? below(w, 3) : 3);
    const bool is_rope = scene == ROPE;
    const qkv_options options = {array, some_text(w, is_rope ? NULL : "TND"), some_text(w, is_rope ? NULL : "TND"), 1e-6F,
                                 is_rope == one_in(w, 32) ? section : NULL, some_text(w, qkv_modes[scene][0]),
                                 some_text(w, qkv_modes[scene][1])};
    const uint64_t untouched = 0x123456789;
    uint64_t bytes = untouched;
    aclOpExecutor *executor = (aclOpExecutor *)(uintptr_t)untouched;
    const int status = phase1(w, is_qkv, given, &options, one_in(w, 64) ? NULL : &bytes, one_in(w, 64) ? NULL : &executor);
    if (status != 0) {
        REQUIRE(w, bytes == untouched && (uintptr_t)executor == untouched, "a failed phase 1 changed what it gives");
    } else {
        if (one_in(w, 4)) {
            (void)ANY(w, aclSetAclOpExecutorRepeatable(executor));
        }
        if (small && !one_in(w, 4)) {
            launch(w, is_qkv, bytes, executor, stream);
        }
        (void)ANY(w, aclDestroyAclOpExecutor(executor)); /* it may be consumed */
    }
    for (size_t i = 0; i < count; i++) {
        if (made[i] != NULL) {
            GOOD(w, aclDestroyTensor(made[i]));
        }
    }
    GOOD(w, aclDestroyIntArray(array));
    GOOD(w, aclDestroyIntArray(section));
}

void wild_operator_step(world *w)
{
    void *memory = NULL;
    uint8_t bytes[ROOM / 16];
    aclrtStream stream = NULL;
    GOOD(w, aclrtSetDevice(w->wild_device));
    GOOD(w, aclrtMalloc(&memory, ROOM, ACL_MEM_MALLOC_HUGE_FIRST));
    GOOD(w, aclrtCreateStream(&stream));
    fill(w, bytes, sizeof bytes);
    if (one_in(w, 2)) { /* slots and batches that could be meant */
        memset(bytes, 0, sizeof bytes);
        for (size_t i = 0; i < sizeof bytes; i += 4) {
            bytes[i] = (uint8_t)below(w, 16);
        }
    }
    GOOD(w, aclrtMemcpy(memory, ROOM, bytes, sizeof bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    for (int i = 0; i < 8; i++) {
        call(w, memory, stream);
    }
    GOOD(w, aclrtDestroyStreamForce(stream));
    GOOD(w, aclrtFree(memory));
    GOOD(w, aclrtResetDevice(w->wild_device));
    GOOD(w, aclrtSetDevice(w->good_device));
    GOOD(w, aclrtResetDevice(w->good_device)); /* the set above took a reference of its own */
}
