/* SPDX-License-Identifier: Apache-2.0 */
/* Good calls of the scatter operator. */
#include <string.h>
#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"
#include "fuzz.h"

enum { KEY, VALUE, KEY_CACHE, VALUE_CACHE, SLOTS, SCALE, SCALE_CACHE, TENSORS };

typedef struct {
    int64_t tokens, heads, blocks, block_size, key_size, value_size;
    bool wide; /* slots of 64 bits */
} sizes;

static void make(world *w, const sizes *z, tensor t[TENSORS])
{
    const aclDataType fp8 = one_in(w, 2) ? ACL_FLOAT8_E4M3FN : ACL_FLOAT8_E5M2;
    const int64_t n = z->heads;
    const struct {
        aclDataType dtype;
        uint64_t rank;
        int64_t dims[4];
    } of[TENSORS] = {
        [KEY] = {fp8, 3, {z->tokens, n, z->key_size}},
        [VALUE] = {fp8, 3, {z->tokens, n, z->value_size}},
        [KEY_CACHE] = {fp8, 4, {z->blocks, n, z->block_size, z->key_size}},
        [VALUE_CACHE] = {fp8, 4, {z->blocks, n, z->block_size, z->value_size}},
        [SLOTS] = {z->wide ? ACL_INT64 : ACL_INT32, 1, {z->tokens}},
        [SCALE] = {ACL_FLOAT, 2, {z->tokens, n}},
        [SCALE_CACHE] = {ACL_FLOAT, 4, {z->blocks, n, z->block_size, 1}},
    };
    for (int i = 0; i < TENSORS; i++) {
        tensor_make(w, &t[i], of[i].dtype, of[i].rank, of[i].dims, NULL);
    }
}

/* Slots that differ, and some that the operator skips. */
static void choose_slots(world *w, const sizes *z, int64_t *slots)
{
    int64_t order[64];
    const int64_t limit = z->blocks * z->block_size;
    for (int64_t i = 0; i < limit; i++) {
        const int64_t j = between(w, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    for (int64_t i = 0; i < z->tokens; i++) {
        slots[i] = !one_in(w, 6) ? order[i] : one_in(w, 2) ? -between(w, 1, 5) : limit + between(w, 0, 1000);
    }
}

static void move(const tensor *to, const tensor *from, int64_t token, int64_t slot, int64_t count)
{
    const int64_t size = to->dims[2];
    for (int64_t head = 0; head < to->dims[1]; head++) {
        for (int64_t i = 0; i < count; i++) {
            memcpy(tensor_at(to, slot / size, head, slot % size, i), tensor_at(from, token, head, i, 0), to->item);
        }
    }
}

void good_scatter_step(world *w)
{
    tensor t[TENSORS];
    int64_t slots[64];
    const int s = (int)below(w, STREAMS);
    sizes z = {0, between(w, 1, 4), between(w, 1, 8), between(w, 1, 8), between(w, 1, 40), between(w, 1, 40), one_in(w, 2)};
    z.tokens = between(w, 0, z.blocks * z.block_size);
    memory_room(w, TENSORS);
    make(w, &z, t);
    choose_slots(w, &z, slots);
    for (int64_t i = 0; i < z.tokens; i++) {
        const int32_t narrow = (int32_t)slots[i];
        memcpy(tensor_at(&t[SLOTS], i, 0, 0, 0), z.wide ? (const void *)&slots[i] : &narrow, t[SLOTS].item);
    }
    tensors_publish(w, t, TENSORS, s);
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    char layout[] = "BNBD";
    GOOD(w, aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize(t[KEY].handle, t[VALUE].handle, t[KEY_CACHE].handle,
                                                           t[VALUE_CACHE].handle, t[SLOTS].handle, t[SCALE].handle,
                                                           t[SCALE_CACHE].handle, one_in(w, 2) ? layout : NULL, &bytes,
                                                           &executor));
    launch_good(w, aclnnScatterPaKvCacheWithKScale, bytes, executor, s);
    for (int64_t i = 0; i < z.tokens; i++) {
        if (slots[i] >= 0 && slots[i] < z.blocks * z.block_size) {
            move(&t[KEY_CACHE], &t[KEY], i, slots[i], z.key_size);
            move(&t[VALUE_CACHE], &t[VALUE], i, slots[i], z.value_size);
            move(&t[SCALE_CACHE], &t[SCALE], i, slots[i], 1);
        }
    }
    tensors_drop(w, t, TENSORS);
}

void launch_good(world *w, phase2 run, uint64_t workspace_bytes, aclOpExecutor *executor, int stream)
{
    void *workspace = NULL;
    if (workspace_bytes > 0) {
        GOOD(w, aclrtMalloc(&workspace, workspace_bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    GOOD(w, run(workspace, workspace_bytes, executor, w->streams[stream]));
    remember_stale(w, executor);
    if (workspace != NULL) {
        GOOD(w, aclrtSynchronizeStream(w->streams[stream]));
        GOOD(w, aclrtFree(workspace));
    }
}
