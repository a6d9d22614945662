/* SPDX-License-Identifier: Apache-2.0 */
/* Control interface of the simulator. CANN exports nothing of this; the presence of aclsim_version tells them apart. */
#ifndef ACLNN_KVCACHE_ACLSIM_ACLSIM_H_
#define ACLNN_KVCACHE_ACLSIM_ACLSIM_H_

#include <stddef.h>
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
    ACLSIM_REPORTS = 12,
    ACLSIM_COUNTERS = 13,
} aclsimCounter;

const char *aclsim_version(void);

/* Value of one counter; -1 for an index that does not exist. Contexts are the explicit ones and the primary contexts
   in use; streams are all but the default ones; holders are int, float and bool arrays, scalars and lists; reports are
   those that the checks made since the process began. */
int64_t aclsim_counter(aclsimCounter counter);

/* Holds every stream before its next task until released; holds do not nest. Lets a test see that a call returned
   before its work ran. */
void aclsim_hold_streams(void);
void aclsim_release_streams(void);

/* Says which installation is simulated, for programs that want to see how they fail on another. The text has entries
   KEY=VALUE with semicolons between them, in any order, each at most once:
     soc         name of the product, such as Ascend910B2. The operators have kernels for Ascend950 products only;
                 elsewhere their phase 1 ends with 561103 and EZ1013. The NPU architecture follows the name, nothing else.
     devices     how many there are, 0 to 8. With 0, aclInit answers 500000, aclrtGetDeviceCount 207004 and calls that
                 take a device 107001; there is no SoC name.
     cann        X.Y.Z, the version that the library says it has. What it does remains that of the release simulated.
     no_kernels  comma list of aclnnScatterPaKvCacheWithKScale and aclnnQkvRmsNormRopeCacheWithKScale: operators whose
                 kernels are not installed, with the answer given at soc.
   Keys that are left out have their defaults: Ascend950PR_9599, 2, the library's own version, none; NULL and "" have none
   but those. Returns 0, or another number with a line on standard error and nothing changed: for a text that is wrong,
   and while ACL is initialised.

   A process begins with the profile of environment variable ACLSIM_PROFILE, read at the first call that asks for it. If
   that is wrong a line on standard error says so, aclInit answers 500000, as it does where CANN cannot tell the product,
   and no device and no version are found, until another is set. */
int aclsim_set_profile(const char *text);

/* Says what is checked beyond CANN's own answers: "all", "none", or a comma list of

     mem    device memory: accesses outside of it, after its end or to what was freed, wrong frees, host code that touches it
     init   reading device memory that was never written
     race   work on two streams that touches the same bytes with no event or synchronise between; slots shared by tokens
     sync   results read, and memory or objects ended, before the host waited for the work on them; events in vain
     api    phases in the wrong order, objects that ended or are of another kind, ignored statuses, threads without a
            device, calls before aclInit or after the end; also where CANN refuses the call
     leak   what is alive when ACL is finalised

   NULL and "" are what a process begins with where environment variable ACLSIM_CHECK has nothing: api. Returns 0, or
   another number with a line on standard error and nothing changed for a text that is wrong. If that of ACLSIM_CHECK is
   wrong, a line on standard error says so as the library is loaded, and aclInit answers 500000 until checks are set.

   What a check finds is a report, and never changes a status: that is CANN's whether checks are on or off. A report goes
   to the recent messages of the thread whose call it is about, under the title Simulator_Check_<check>; as a line of JSON
   to the end of the file that environment variable ACLSIM_REPORT names, or else as a line of text to standard error; and
   into the queue of aclsim_next_report. The file begins with a line that says versions, process and checks. */
int aclsim_set_checks(const char *text);

/* What this thread makes from now on is for: a text that reports give with a thing. At most 39 characters of ASCII are
   kept, and others and quotes become question marks. NULL and "" take it away. */
void aclsim_label(const char *text);

/* Number of reports that wait to be read. The queue holds 1024; while it is full, new reports do not enter it, and a gap
   in the sequence numbers tells that some are missing. */
size_t aclsim_report_count(void);

/* Takes the oldest report out of the queue as a JSON object with a NUL behind it:
     {"sequence": 1, "check": "mem", "kind": "out_of_bounds_write", "function": "aclrtMemset", "text": "...",
      "device": null, "stream": null, "thread": 4711}
   Device and stream are those of the work, null for what a call did itself; the thread is the one that made the call.
   Returns the size that the text takes: 0 when there is none. A buffer that is smaller, or NULL, takes nothing. */
size_t aclsim_next_report(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACLSIM_ACLSIM_H_ */
