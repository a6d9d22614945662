/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of any kind, their getters, and handles that are none. */
#include <string.h>
#include "fuzz.h"

enum { HELD = 8 };

/* The getter's copy is the caller's to delete in C++ and leaks in C: it is asked for tensors of few extents only. */
static void look(world *w, const aclTensor *tensor)
{
    int64_t offset;
    aclFormat format;
    aclDataType dtype;
    void *address;
    (void)ANY(w, aclGetViewOffset(tensor, one_in(w, 16) ? NULL : &offset));
    (void)ANY(w, aclGetFormat(tensor, one_in(w, 16) ? NULL : &format));
    (void)ANY(w, aclGetDataType(tensor, one_in(w, 16) ? NULL : &dtype));
    (void)ANY(w, aclGetRawTensorAddr(tensor, one_in(w, 16) ? NULL : &address));
}

static void change(world *w, aclTensor *tensor)
{
    const int64_t dims[MOST_RANK] = {odd_number(w), odd_number(w), 3};
    const uint64_t rank = below(w, MOST_RANK + 1);
    (void)ANY(w, aclSetRawTensorAddr(tensor, (void *)(uintptr_t)wild_pointer(w)));
    (void)ANY(w, aclInitTensor(tensor, one_in(w, 4) ? NULL : dims, rank, (aclDataType)odd_number(w),
                               one_in(w, 2) ? NULL : dims, odd_number(w), (aclFormat)odd_number(w), dims, rank,
                               (void *)(uintptr_t)wild_pointer(w)));
}

static void tensors_and_lists(world *w)
{
    const aclTensor *made[HELD];
    bool small = true;
    const size_t count = below(w, HELD + 1);
    for (size_t i = 0; i < count; i++) {
        made[i] = wild_tensor(w, (void *)(uintptr_t)wild_pointer(w), &small);
        REQUIRE(w, made[i] != NULL, "no tensor was made");
        look(w, made[i]);
        change(w, (aclTensor *)(uintptr_t)made[i]);
        look(w, made[i]);
    }
    uint64_t size = 0;
    aclTensorList *list = aclCreateTensorList(count == 0 ? NULL : made, count);
    if (list == NULL) {
        (void)ANY(w, aclGetTensorListSize(list, &size));
    } else {
        GOOD(w, aclGetTensorListSize(list, &size));
        REQUIRE(w, size == count, "a list of %zu has %llu", count, (unsigned long long)size);
        GOOD(w, aclDestroyTensorList(list)); /* its tensors go with it */
        for (size_t i = 0; i < count; i++) {
            remember_stale(w, made[i]);
        }
        remember_stale(w, list);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        GOOD(w, aclDestroyTensor(made[i]));
    }
}

static void arrays(world *w)
{
    int64_t integers[HELD];
    float floats[HELD];
    bool bools[HELD];
    fill(w, integers, sizeof integers);
    memset(floats, 0x7F, sizeof floats);
    memset(bools, 1, sizeof bools);
    const uint64_t count = below(w, HELD + 1);
    uint64_t size = 0;
    aclIntArray *i = aclCreateIntArray(integers, count);
    aclFloatArray *f = aclCreateFloatArray(floats, count);
    aclBoolArray *b = aclCreateBoolArray(bools, count);
    aclScalar *s = aclCreateScalar(integers, (aclDataType)(one_in(w, 4) ? odd_number(w) : between(w, 0, 12)));
    if (i != NULL) {
        GOOD(w, aclGetIntArraySize(i, &size));
        REQUIRE(w, size == count, "an array of %llu has %llu", (unsigned long long)count, (unsigned long long)size);
    }
    (void)ANY(w, aclGetFloatArraySize(f, &size));
    (void)ANY(w, aclGetBoolArraySize(b, one_in(w, 4) ? NULL : &size));
    (void)ANY(w, aclGetIntArraySize((const aclIntArray *)f, &size)); /* of another kind */
    (void)ANY(w, aclDestroyIntArray((const aclIntArray *)b));
    (void)ANY(w, aclDestroyIntArray(i));
    (void)ANY(w, aclDestroyFloatArray(f));
    (void)ANY(w, aclDestroyBoolArray(b));
    (void)ANY(w, aclDestroyScalar(s));
}

static void handles_that_are_none(world *w)
{
    const void *handle = wild_pointer(w);
    uint64_t size;
    void *address;
    aclTensor *tensor = (aclTensor *)(uintptr_t)handle;
    aclOpExecutor *executor = (aclOpExecutor *)(uintptr_t)handle;
    look(w, tensor);
    change(w, tensor);
    (void)ANY(w, aclDestroyTensor(tensor));
    (void)ANY(w, aclDestroyScalar((const aclScalar *)handle));
    (void)ANY(w, aclDestroyTensorList((const aclTensorList *)handle));
    (void)ANY(w, aclDestroyScalarList((const aclScalarList *)handle));
    (void)ANY(w, aclGetIntArraySize((const aclIntArray *)handle, &size));
    (void)ANY(w, aclGetTensorListSize((const aclTensorList *)handle, &size));
    (void)ANY(w, aclGetRawTensorAddr(tensor, &address));
    (void)ANY(w, aclSetAclOpExecutorRepeatable(executor));
    (void)ANY(w, aclSetInputTensorAddr(executor, below(w, 20), tensor, &size));
    (void)ANY(w, aclSetOutputTensorAddr(executor, below(w, 20), tensor, &size));
    (void)ANY(w, aclSetTensorAddr(executor, (size_t)odd_number(w), tensor, &size));
    (void)ANY(w, aclDestroyAclOpExecutor(executor));
}

void wild_support_step(world *w)
{
    static void (*const steps[])(world *) = {tensors_and_lists, arrays, handles_that_are_none};
    steps[below(w, sizeof steps / sizeof steps[0])](w);
}
