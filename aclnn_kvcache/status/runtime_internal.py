# SPDX-License-Identifier: Apache-2.0
"""Statuses of the runtime for what failed inside it or in the driver: 507xxx but for faults on the device."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes="an event that was never recorded, or a failure inside the runtime",
        action="record both events before asking for the time between them; else read the library's message",
        rows=((507000, "ACL_ERROR_RT_INTERNAL_ERROR", "runtime internal error"),),
    ),
    Group(
        causes="the scheduler on the device failed, or stopped answering",
        action=(
            "reset the device; if it comes back, look at its health with npu-smi info and keep the log (aclnn-kvcache "
            "explain --plog) for a report to the vendor"
        ),
        rows=(
            (507001, "ACL_ERROR_RT_TS_ERROR", "task scheduler internal error"),
            (507010, "ACL_ERROR_RT_LOST_HEARTBEAT", "lost heartbeat of the task scheduler"),
        ),
    ),
    Group(
        causes="more work was queued than the stream can hold",
        action="synchronise now and then",
        rows=((507002, "ACL_ERROR_RT_STREAM_TASK_FULL", "stream task slots full"),),
    ),
    Group(
        causes="a query found the state that its name says; as an error it is unusual",
        action="synchronise the stream or the event before relying on it",
        rows=(
            (507003, "ACL_ERROR_RT_STREAM_TASK_EMPTY", "no task in the stream"),
            (507004, "ACL_ERROR_RT_STREAM_NOT_COMPLETE", "stream not finished"),
            (507006, "ACL_ERROR_RT_EVENT_NOT_COMPLETE", "event not finished"),
        ),
    ),
    Group(
        causes="a data pipeline reached its end; the operators of this package have none",
        action="nothing, if the end was expected",
        rows=((507005, "ACL_ERROR_RT_END_OF_SEQUENCE", "end of sequence (normal end for AI CPU data pipelines)"),),
    ),
    Group(
        causes="a device was reset without having been set, or twice, or a context is destroyed by two threads",
        action="pair each aclrtResetDevice with one aclrtSetDevice",
        rows=(
            (
                507007,
                "ACL_ERROR_RT_CONTEXT_RELEASE_ERROR",
                "context release error (also reset of a device that is not set)",
            ),
        ),
    ),
    Group(
        causes="CANN does not know the chip, or cannot ask the driver for it",
        action="check that driver and CANN support this product and belong together (aclnn-kvcache doctor)",
        rows=((507008, "ACL_ERROR_RT_SOC_VERSION", "SoC name unknown or not obtainable"),),
    ),
    Group(
        causes="the product or its firmware cannot run this kind of task",
        action="compare product, firmware and driver with what the release of CANN asks for",
        rows=((507009, "ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT", "task type not supported"),),
    ),
    Group(
        causes="a callback did not report in time",
        action="process reports in a thread of their own",
        rows=((507012, "ACL_ERROR_RT_REPORT_TIMEOUT", "waiting for a report timed out"),),
    ),
    Group(
        causes="a copy touched memory that does not exist or was freed while the copy was queued",
        action="keep source and destination alive until the stream is synchronised, and check their sizes",
        rows=(
            (507013, "ACL_ERROR_RT_SYS_DMA", "system DMA error"),
            (507052, "ACL_ERROR_RT_COPY_DATA", "data copy failed while enqueuing"),
        ),
    ),
    Group(
        causes="a profiler is attached and failed",
        action="run without the profiler",
        rows=((507021, "ACL_ERROR_RT_PROFILING_ERROR", "profiling error"),),
    ),
    Group(
        causes="memory or events are shared between processes, and the other side is gone or was never ready",
        action="keep the exporting process alive, and open what it exports only after it has been made",
        rows=(
            (507022, "ACL_ERROR_RT_IPC_ERROR", "inter-process error"),
            (507901, "ACL_ERROR_RT_SOCKET_CLOSE", "host-device session closed"),
        ),
    ),
    Group(
        causes="a model was aborted on purpose; the operators of this package need none",
        action="look at the component that runs models",
        rows=((507023, "ACL_ERROR_RT_MODEL_ABORT_NORMAL", "model aborted normally"),),
    ),
    Group(
        causes=(
            "kernels are registered twice, unregistered while in use, or not at all: two copies of an operator "
            "package, or a missing one"
        ),
        action="load each operator package once, and check it (aclnn-kvcache doctor)",
        rows=(
            (507024, "ACL_ERROR_RT_KERNEL_UNREGISTERING", "kernel is being unregistered"),
            (507027, "ACL_ERROR_RT_KERNEL_LOOKUP", "kernel not registered in the runtime"),
            (507028, "ACL_ERROR_RT_KERNEL_DUPLICATE", "kernel registered twice"),
            (507032, "ACL_ERROR_RT_PROGRAM_USE_OUT", "too many registered programs"),
        ),
    ),
    Group(
        causes="a debugging or tracing facility of the device is not available",
        action="run without it",
        rows=(
            (507025, "ACL_ERROR_RT_RINGBUFFER_NOT_INIT", "ring buffer not initialised"),
            (507026, "ACL_ERROR_RT_RINGBUFFER_NO_DATA", "ring buffer empty"),
            (507029, "ACL_ERROR_RT_DEBUG_REGISTER_FAIL", "debug registration failed"),
            (507030, "ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL", "debug deregistration failed"),
        ),
    ),
    Group(
        causes="a label of another context is used; the operators of this package need none",
        action="look at the component that uses labels",
        rows=((507031, "ACL_ERROR_RT_LABEL_CONTEXT", "label belongs to another context"),),
    ),
    Group(
        causes="the device could not be opened: busy, no permission, container mount, or version mismatch",
        action="check that no other process holds the device, its permissions and the driver's version",
        telling=(
            "never your tensors: no operator has run yet. Look at other processes on the device (npu-smi info), "
            "/dev/davinci* and the driver's folder inside the container, the groups of the user, and whether operator "
            'package, driver and CANN belong together. A headline "context is a null pointer" beside it is a '
            "consequence"
        ),
        rows=((507033, "ACL_ERROR_RT_DEV_SETUP_ERROR", "device start-up failed"),),
    ),
    Group(
        causes="an internal queue of the runtime is in a bad state",
        action=(
            "reset the device; if it comes back, keep the log (aclnn-kvcache explain --plog) for a report to the vendor"
        ),
        rows=((507037, "ACL_ERROR_RT_CDQ_BATCH_ABNORMAL", "cdq batch abnormal"),),
    ),
    Group(
        causes="the modes of a device with several dies are set in a wrong way",
        action="leave the die mode alone: the operators of this package need none",
        rows=(
            (507038, "ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR", "die mode cannot be changed"),
            (507039, "ACL_ERROR_RT_DIE_SET_ERROR", "single-die mode cannot select a die"),
            (507040, "ACL_ERROR_RT_INVALID_DIEID", "die id invalid"),
            (507041, "ACL_ERROR_RT_DIE_MODE_NOT_SET", "die mode not set"),
        ),
    ),
    Group(
        causes="queued work did not end in time",
        action="raise the timeout, or look for a wait that nothing satisfies",
        rows=((507046, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT", "stream (or device) synchronise timed out"),),
    ),
    Group(
        causes="the event was not reached in time",
        action="raise the timeout, or look for a wait that nothing satisfies",
        rows=((507047, "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT", "event synchronise timed out"),),
    ),
    Group(
        causes="host and device could not exchange a message: the device was reset, or the driver restarted",
        action="start the process again, and look at the device with npu-smi info",
        rows=((507051, "ACL_ERROR_RT_SEND_MSG", "message send failed"),),
    ),
    Group(
        causes="the driver refused the operation",
        action="check host memory registration, permissions and the driver",
        rows=((507899, "ACL_ERROR_RT_DRV_INTERNAL_ERROR", "driver internal error"),),
    ),
    Group(
        causes="an earlier call broke the capture of a stream into a graph",
        action="find the first call of the capture that failed; end the capture and begin anew",
        rows=((507903, "ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED", "capture invalidated"),),
    ),
    Group(
        causes="collective communication failed; the operators of this package use none",
        action="look at the component that communicates",
        rows=(
            (507904, "ACL_ERROR_RT_COMM_OP_RETRY_FAIL", "collective operation retry failed"),
            (507915, "ACL_ERROR_RT_CCU_TIMEOUT", "CCU timeout"),
            (507916, "ACL_ERROR_RT_CCU_EXCEPTION", "CCU exception"),
        ),
    ),
    Group(
        causes=(
            "a snapshot of the process's device state is taken or restored; this package does not, so something else "
            "does"
        ),
        action="look at the component that takes snapshots; make no device calls while it does",
        rows=(
            (507905, "ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT", "snapshot lock timed out"),
            (507906, "ACL_ERROR_SNAPSHOT_LOCK_FAILED", "snapshot lock failed"),
            (507907, "ACL_ERROR_SNAPSHOT_UNLOCK_FAILED", "snapshot unlock failed"),
            (507908, "ACL_ERROR_SNAPSHOT_BACKUP_FAILED", "snapshot backup failed"),
            (507909, "ACL_ERROR_SNAPSHOT_RESTORE_FAILED", "snapshot restore failed"),
            (507912, "ACL_ERROR_SNAPSHOT_CALLBACK_FAILED", "snapshot callback failed"),
            (507913, "ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED", "snapshot callback registration failed"),
        ),
    ),
    Group(
        causes="host memory was registered twice, or is to be unregistered without having been registered",
        action="register each range once, with page-aligned address and size, or use aclrtMallocHost",
        rows=(
            (507910, "ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "host range already registered"),
            (507911, "ACL_ERROR_HOST_MEMORY_NOT_REGISTERED", "host range not registered"),
        ),
    ),
)
