/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exception.h"

#include <stdatomic.h>

static _Atomic(aclrtExceptionInfoCallback) current;

void sim_exception_set_callback(aclrtExceptionInfoCallback callback)
{
    atomic_store(&current, callback);
}

void sim_exception_raise(aclrtExceptionInfo *info)
{
    aclrtExceptionInfoCallback callback = atomic_load(&current);
    if (callback != NULL) {
        callback(info);
    }
}
