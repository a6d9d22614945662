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

/* Holds every stream before its next task until released, whatever the schedule; holds do not nest. Lets a test see
   that a call returned before its work ran. */
void aclsim_hold_streams(void);
void aclsim_release_streams(void);

/* Says when the work that calls queue on streams runs. A correct program gives the same results under every schedule:
     worker       as soon as its stream is free, while the program goes on; the default, also for NULL and "".
     immediate    within the call that queues it, which returns only then. Where streams are held, or the stream waits
                  for an event that is yet to be recorded, the call returns and the work runs later.
     lazy         not before the host waits: then all that is queued runs, on every stream, and what other threads queue
                  meanwhile. Waits are the synchronisations of streams, events and devices, copies that wait for their
                  stream, and the end of a stream or device. A question (the query of a stream or event, the time of an
                  event) and a synchronous copy are answered first, by what ran before; then what is queued runs, so
                  that who asks again gets on.
     random:SEED  as with worker, but after a delay before each task: mostly below 0.2 ms, one in eight up to 5 ms. The
                  delays of a stream follow from SEED (a number of at most 19 digits), from its number (the streams of a
                  device are numbered in the order in which the process creates them) and from the task's number in it,
                  not from the timing of threads.
   It holds for work from then on. Returns 0, or another number with a line on standard error and nothing changed.

   A process begins with the schedule of environment variable ACLSIM_SCHEDULE, read when it is first asked for. If that
   is wrong a line on standard error says so, and aclInit answers 500000 until another is set. */
int aclsim_set_schedule(const char *text);

/* Says which calls go wrong. The text has entries with semicolons between them; spaces around entries do not count.
     FUNCTION#N=FAILURE       the N-th call of a function fails: with a status, which is a number, or as NULL if the
                              function returns a pointer. One that returns another value cannot fail.
     kernel:FUNCTION#N=STATUS the work that its N-th call queued (a kernel; a copy, fill or event of an asynchronous
                              call) fails when its turn comes, which is told like any fault: at the next synchronise.
     allocation#N=exhausted   the N-th allocation of device memory, or of the runtime's host memory, by whatever
                              function, finds none left.
     call#N=fail              the N-th call of all fails as is natural for its function: with a status, or as NULL. If
                              it cannot fail, nothing happens.
     message=null             aclGetRecentErrMsg says nothing. message=badbytes: it says something that is no UTF-8.
                              message=stale: what it said before stays, and new text comes in front of it.
     count                    nothing goes wrong; calls are counted, as with every plan.
   N counts from 1, since the plan was set; * is every one. A failure may be followed by
     :after                   the work is done first, then the failure is answered. Otherwise nothing is done.
     :rubbish                 of a phase 1: its out-parameters are filled with rubbish.
   A call, or the work that it queued, may take its time, whether it fails then or not:
     FUNCTION#N:delay=50ms    before anything else; 1 to 60000 ms.
   For instance: aclrtMalloc#3=207001; aclrtMemcpy#*:delay=5ms; kernel:aclnnScatterPaKvCacheWithKScale#1=507035
   NULL and "" end the plan and the counting. Returns 0, or another number with a line on standard error and nothing
   changed.

   A process begins with the plan of environment variable ACLSIM_FAULTS, read at the first call. If that is wrong a line
   on standard error says so, nothing is planned, and aclInit answers 500000 until another is set. */
int aclsim_set_faults(const char *text);

/* How many calls of CANN's functions were made since the plan was set; the name of the N-th of them, NULL if there is
   none; and how often something that was planned happened, messages apart. Without a plan all are 0. */
int64_t aclsim_call_count(void);
const char *aclsim_call_name(int64_t number);
int64_t aclsim_fault_count(void);

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

     mem    device memory: accesses outside of it, after its end or to what was freed, wrong frees, host code that touches
            it; and memory of aclrtMallocHost
     init   reading device memory that was never written
     race   work on two streams that touches the same bytes, or has the same workspace, with no event or synchronise
            between; slots shared by tokens, and bytes that rows or tensors of one call share
     sync   results read, and memory or objects ended, before the host waited for the work on them; waits for events that
            were never recorded
     api    phases in the wrong order, objects that ended or are of another kind, a workspace that is too small or on a
            tensor of its call, use of what a failed call left, faults that nobody was told of, threads without a device,
            calls before aclInit or after the end; also where CANN refuses the call
     leak   what is alive when ACL is finalised; a program that never does is told nothing

   NULL and "" are what a process begins with where environment variable ACLSIM_CHECK has nothing: api. Returns 0, or
   another number with a line on standard error and nothing changed for a text that is wrong. If that of ACLSIM_CHECK is
   wrong, a line on standard error says so as the library is loaded, and aclInit answers 500000 until checks are set.

   What a check finds is a report, and never changes a status: that is CANN's whether checks are on or off. A report goes
   to the recent messages of the thread whose call it is about, under the title Simulator_Check_<check>; as a line of JSON
   to the end of the file that environment variable ACLSIM_REPORT names, or else as a line of text to standard error; and
   into the queue of aclsim_next_report. The file begins with a line that says versions, process and checks:
     {"schema": 1, "simulator": "...", "pid": 4711, "checks": ["mem", "api"]}

   Kinds of reports; `aclnn-kvcache explain KIND` has causes and cures:

     mem    out_of_bounds_read out_of_bounds_write guard_overwritten use_after_free freed_while_queued double_free
            invalid_free inner_free host_touch overlapping_copy wrapped_slot wrapped_offset wrapped_limit
     init   uninitialised_read
     race   unordered_writes unordered_read_and_write duplicate_slot overlapping_rows overlapping_tensors
     sync   read_before_synchronise write_before_synchronise freed_in_flight destroyed_in_flight finalized_in_flight
            exit_in_flight time_before_synchronise wait_without_record
     api    unheard_fault ignored_status unknown_handle handle_of_another_kind destroyed_handle
            tensor_destroyed_between_phases consumed_executor executor_of_another_operator workspace_too_small
            workspace_outside_allocation workspace_not_device_memory workspace_overlaps_tensor
            memory_of_another_device misaligned
            slot_out_of_range position_out_of_range batch_out_of_range length_below_tokens strides_ignored no_device
            stream_of_another_context call_before_init call_after_finalize repeated_init repeated_finalize
            finalize_in_use copy_kind_mismatch event_not_resettable too_many_dimensions
     leak   leaked_device_memory leaked_host_memory leaked_host_registration leaked_context leaked_stream
            leaked_stream_config leaked_event leaked_tensor leaked_tensor_list leaked_scalar leaked_scalar_list
            leaked_int_array leaked_float_array leaked_bool_array leaked_executor

   Limits. Host code that touches device memory always faults; only with mem is the allocation named, by a handler of
   SIGSEGV that is there once the library is loaded. A program that installs its own after that loses the sentence, unless
   its handler passes the signal on; aclInit says so on standard error if that has happened by then. A system call (read,
   write, send) does not fault: it answers EFAULT, and there is no report. Without mem, the message of a kernel's fault
   does not say which access it was; ACLSIM_CHECK=mem does. Of memory of aclrtMallocHost, what code of the host does is not
   seen, but a write to the 64 bytes on either side is told when it is freed; copies from and to what was freed are told
   for the last 64 allocations of at most 1 MiB. At the exit of the process only faults and work that is left on streams
   are told. A wait of the host is looked at after 2 seconds, or when its time is over. */
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
   The sequence counts the reports of the process from 1; check and kind are words of the lists above; function is the
   call, or the operator whose kernel it is about, "exit" for the end of the process and "" for a host_touch. Device and
   stream are those of the work, null for what a call did itself; the thread is the one that made the call, null for a
   host_touch.
   Returns the size that the text takes: 0 when there is none. A buffer that is smaller, or NULL, takes nothing. */
size_t aclsim_next_report(char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* ACLNN_KVCACHE_ACLSIM_ACLSIM_H_ */
