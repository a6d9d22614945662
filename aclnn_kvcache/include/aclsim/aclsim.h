/* SPDX-License-Identifier: Apache-2.0 */
/* Control interface of the simulator. CANN exports nothing of this; the presence of aclsim_version tells them apart. */
#ifndef ACLNN_KVCACHE_ACLSIM_ACLSIM_H_
#define ACLNN_KVCACHE_ACLSIM_ACLSIM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of live objects and counters, by the index of aclsim_counter. */
typedef enum {
    ACLSIM_LIVE_DEVICE_ALLOCATIONS = 0,
    ACLSIM_LIVE_DEVICE_BYTES = 1,
    ACLSIM_LIVE_HOST_ALLOCATIONS = 2,
    ACLSIM_LIVE_CONTEXTS = 3,
    ACLSIM_LIVE_STREAMS = 4,
    ACLSIM_LIVE_EVENTS = 5,
    ACLSIM_LIVE_TENSORS = 6,
    ACLSIM_LIVE_HOLDERS = 7,
    ACLSIM_LIVE_EXECUTORS = 8,
    ACLSIM_INIT_CALLS = 9,
    ACLSIM_FINALIZE_CALLS = 10,
    ACLSIM_KERNEL_LAUNCHES = 11,
    ACLSIM_MISUSES = 12,
    ACLSIM_COUNTERS = 13,
} aclsimCounter;

const char *aclsim_version(void);

/* Value of one counter; -1 for an index that does not exist. Contexts are the explicit ones and the primary contexts
   in use; streams are all but the default ones; holders are int, float and bool arrays, scalars and lists; misuses are
   calls that CANN lets through although their behaviour is undefined, each also written to standard error. */
int64_t aclsim_counter(aclsimCounter counter);

/* Holds every stream before its next task until released; holds do not nest. Lets a test see that a call returned
   before its work ran. */
void aclsim_hold_streams(void);
void aclsim_release_streams(void);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACLSIM_ACLSIM_H_ */
