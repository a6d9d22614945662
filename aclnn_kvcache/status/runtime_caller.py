# SPDX-License-Identifier: Apache-2.0
"""Statuses of the runtime for a caller's mistake: 107xxx. The acl functions return them unchanged."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes=(
            "an argument of a runtime call is out of range: a NULL pointer, a size of 0, a timeout of 0 or below -1, "
            "unknown flags"
        ),
        action="look at the arguments of the function named in the message",
        rows=((107000, "ACL_ERROR_RT_PARAM_INVALID", "argument rejected by the runtime"),),
    ),
    Group(
        causes="the device id is out of range, or ASCEND_RT_VISIBLE_DEVICES hides the device",
        action="compare the id with the device count and with ASCEND_RT_VISIBLE_DEVICES (ascending, re-indexed from 0)",
        rows=((107001, "ACL_ERROR_RT_INVALID_DEVICEID", "device id out of range"),),
    ),
    Group(
        causes="the calling thread never set a device",
        action="use the session's methods, which bind it, in each thread",
        rows=((107002, "ACL_ERROR_RT_CONTEXT_NULL", "calling thread has no current context"),),
    ),
    Group(
        causes="the stream belongs to another device or context",
        action="use a stream of this session",
        rows=((107003, "ACL_ERROR_RT_STREAM_CONTEXT", "stream belongs to another context"),),
    ),
    Group(
        causes=(
            "captured graphs or models are run; the operators of this package need none, so something else in the "
            "process does"
        ),
        action="look at the component that captures or loads models",
        rows=(
            (107004, "ACL_ERROR_RT_MODEL_CONTEXT", "model belongs to another context"),
            (107005, "ACL_ERROR_RT_STREAM_MODEL", "stream not bound to this model"),
            (107037, "ACL_ERROR_RT_MODEL_RUNNING", "model still running"),
            (107040, "ACL_ERROR_RT_MODEL_UPDATE_FAILED", "captured model update failed"),
        ),
    ),
    Group(
        causes=(
            "an event was not recorded yet, not reached yet, or made without timing; or the two are in the wrong order"
        ),
        action="record both events with timing, synchronise their stream, then ask for the time between them",
        rows=(
            (
                107006,
                "ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID",
                "event has no usable timestamp (not recorded/finished/timing off)",
            ),
            (107007, "ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL", "event timestamps run backwards"),
        ),
    ),
    Group(
        causes="an address or size is not a multiple of what the call asks for",
        action="take memory from aclrtMalloc or aclrtMallocHost, and keep offsets aligned",
        rows=((107008, "ACL_ERROR_RT_ADDR_UNALIGNED", "address not aligned"),),
    ),
    Group(
        causes="a file named in the call cannot be opened or written",
        action="look at the path, its permissions and the free space",
        rows=(
            (107009, "ACL_ERROR_RT_FILE_OPEN", "file open failed"),
            (107010, "ACL_ERROR_RT_FILE_WRITE", "file write failed"),
        ),
    ),
    Group(
        causes="callbacks of a stream were subscribed twice or not at all",
        action="subscribe a stream once, process reports in the thread that was named, and unsubscribe at the end",
        rows=(
            (107011, "ACL_ERROR_RT_STREAM_SUBSCRIBE", "stream not subscribed or subscribed twice"),
            (107012, "ACL_ERROR_RT_THREAD_SUBSCRIBE", "thread not subscribed or subscribed twice"),
            (107015, "ACL_ERROR_RT_STREAM_NO_CB_REG", "stream has no registered callback thread"),
        ),
    ),
    Group(
        causes="a group of cores was used that was not created or not chosen",
        action="leave groups alone: the operators of this package need none",
        rows=(
            (107013, "ACL_ERROR_RT_GROUP_NOT_SET", "group not set"),
            (107014, "ACL_ERROR_RT_GROUP_NOT_CREATE", "group id not created"),
        ),
    ),
    Group(
        causes="the kind of memory does not fit the call: host for device, or a policy that the product does not have",
        action="use device memory of aclrtMalloc where a device address is asked for",
        rows=(
            (107016, "ACL_ERROR_RT_INVALID_MEMORY_TYPE", "memory type/attribute invalid"),
            (107018, "ACL_ERROR_RT_INVALID_MALLOC_TYPE", "allocation type does not match use"),
        ),
    ),
    Group(
        causes="the handle was destroyed, or is of another kind",
        action="keep the object open for as long as it is used",
        rows=((107017, "ACL_ERROR_RT_INVALID_HANDLE", "handle invalid, stale, destroyed or of another kind"),),
    ),
    Group(
        causes="queued work or a wait did not end in the time given",
        action="raise the timeout, or look for a wait that nothing satisfies",
        rows=(
            (107019, "ACL_ERROR_RT_WAIT_TIMEOUT", "wait timed out"),
            (107020, "ACL_ERROR_RT_TASK_TIMEOUT", "task timed out"),
        ),
    ),
    Group(
        causes="a system parameter was asked for that was never set",
        action="set it first, or take the default",
        rows=((107021, "ACL_ERROR_RT_SYSPARAMOPT_NOT_SET", "system parameter was never set on this context"),),
    ),
    Group(
        causes="something in the process is aborting the work of the device or the stream",
        action="find out who aborts and why; then start the work again on a new stream",
        rows=(
            (107022, "ACL_ERROR_RT_DEVICE_TASK_ABORT", "conflicts with a running device task-abort"),
            (107023, "ACL_ERROR_RT_STREAM_ABORT", "stream is being aborted"),
            (107035, "ACL_ERROR_RT_TASK_ABORT_STOP", "task abort stopped before post-processing"),
        ),
    ),
    Group(
        causes="a stream is being captured into a graph, and this call does not fit into the capture",
        action=(
            "end the capture first, or make the call on a stream that is not captured; join side streams back before "
            "the end"
        ),
        rows=(
            (107024, "ACL_ERROR_RT_CAPTURE_DEPENDENCY", "capture: wait without matching record"),
            (107025, "ACL_ERROR_RT_STREAM_UNJOINED", "capture: side stream not joined back"),
            (107026, "ACL_ERROR_RT_MODEL_CAPTURED", "model is in capture"),
            (107027, "ACL_ERROR_RT_STREAM_CAPTURED", "stream is in capture"),
            (107028, "ACL_ERROR_RT_EVENT_CAPTURED", "event is in capture"),
            (107029, "ACL_ERROR_RT_STREAM_NOT_CAPTURED", "stream is not in capture"),
            (107030, "ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT", "operation not allowed in this capture mode"),
            (107031, "ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT", "capture: implicit dependency on the default stream"),
            (107032, "ACL_ERROR_STREAM_CAPTURE_CONFLICT", "capture: event and stream belong to different captures"),
            (107036, "ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED", "capture was begun on another stream"),
            (107038, "ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD", "capture ended on another thread than it began"),
            (107041, "ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC", "capture mode forbids turning async into blocking"),
            (107045, "ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING", "nested graph capture in progress"),
        ),
    ),
    Group(
        causes="a task group of a captured graph was begun, ended or updated in the wrong order",
        action="end the group that is open before anything else on that stream",
        rows=(
            (107033, "ACL_ERROR_STREAM_TASK_GROUP_STATUS", "task group in wrong state"),
            (107034, "ACL_ERROR_STREAM_TASK_GROUP_INTR", "task group recording interrupted"),
        ),
    ),
    Group(
        causes="the caller's array has fewer entries than the answer",
        action="ask for the count first and pass an array of that size",
        rows=((107039, "ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY", "caller array too small"),),
    ),
    Group(
        causes="a kernel binary does not hold what was asked of it: built from other sources, or for another product",
        action=(
            "check that operator library and kernel package are of one release and of this product (aclnn-kvcache "
            "doctor)"
        ),
        rows=(
            (107042, "ACL_ERROR_RT_SYMBOL_NOT_FOUND", "symbol not found in the kernel binary"),
            (107043, "ACL_ERROR_RT_INVALID_SYMBOL", "device symbol invalid"),
            (107044, "ACL_ERROR_RT_INVALID_DEVICE_FUNCTION", "device function symbol invalid"),
        ),
    ),
)
