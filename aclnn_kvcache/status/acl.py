# SPDX-License-Identifier: Apache-2.0
"""Statuses of the acl layer: 100xxx, 148xxx, 2000xx, 300000, 5000xx. It checks before the runtime is asked."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes="a NULL pointer, a zero size or an enum value out of range",
        action="look at the arguments of this call",
        rows=((100000, "ACL_ERROR_INVALID_PARAM", "an argument failed validation at the acl layer"),),
    ),
    Group(
        causes="aclInit was never called in this process, or ACL was finalised already",
        action="open the session before anything else uses ACL, and finalise ACL only after the last use",
        rows=((100001, "ACL_ERROR_UNINITIALIZE", "API used before initialisation"),),
    ),
    Group(
        causes="a framework or another library in this process has initialised ACL before",
        action="nothing: it counts as success; whoever got 0 from aclInit is the one to finalise",
        rows=(
            (100002, "ACL_ERROR_REPEAT_INITIALIZE", "already initialised or loaded (second aclInit; treat as success)"),
        ),
    ),
    Group(
        causes=(
            "a configuration or version file that was named in the call, or found by an environment variable, is "
            "missing, unreadable or malformed"
        ),
        action="look at the file named in the message, its permissions and its syntax, and at ASCEND_HOME_PATH",
        rows=(
            (100003, "ACL_ERROR_INVALID_FILE", "file missing, unreadable or not a regular file"),
            (100004, "ACL_ERROR_WRITE_FILE", "writing a file failed"),
            (100005, "ACL_ERROR_INVALID_FILE_SIZE", "file size outside what the API accepts"),
            (100006, "ACL_ERROR_PARSE_FILE", "file content cannot be parsed"),
            (100007, "ACL_ERROR_FILE_MISSING_ATTR", "file lacks a required key"),
            (100008, "ACL_ERROR_FILE_ATTR_INVALID", "a key in the file has a bad value"),
        ),
    ),
    Group(
        causes="the JSON file given to aclInit asks for something that this release does not take",
        action="correct the section named in the message, or initialise without a file",
        rows=(
            (100009, "ACL_ERROR_INVALID_DUMP_CONFIG", "dump configuration rejected"),
            (100010, "ACL_ERROR_INVALID_PROFILING_CONFIG", "profiling configuration rejected"),
            (148048, "ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG", "max_opqueue_num value rejected"),
        ),
    ),
    Group(
        causes=(
            "a model is loaded or run; the operators of this package need none, so something else in the process does"
        ),
        action="look at the component that loads models, and at the model file it was given",
        rows=(
            (100011, "ACL_ERROR_INVALID_MODEL_ID", "model id unknown"),
            (100012, "ACL_ERROR_DESERIALIZE_MODEL", "model deserialisation failed"),
            (100013, "ACL_ERROR_PARSE_MODEL", "model parsing failed"),
            (100014, "ACL_ERROR_READ_MODEL_FAILURE", "model file could not be read"),
            (100015, "ACL_ERROR_MODEL_SIZE_INVALID", "model size rejected"),
            (100016, "ACL_ERROR_MODEL_MISSING_ATTR", "model lacks a required attribute"),
            (100017, "ACL_ERROR_MODEL_INPUT_NOT_MATCH", "model inputs do not match"),
            (100018, "ACL_ERROR_MODEL_OUTPUT_NOT_MATCH", "model outputs do not match"),
            (100019, "ACL_ERROR_MODEL_NOT_DYNAMIC", "model is not dynamic"),
            (148053, "ACL_ERROR_INVALID_BUNDLE_MODEL_ID", "bundle model id invalid"),
        ),
    ),
    Group(
        causes=(
            "the old single-operator interface (aclopExecute and its kin) is used; aclnn operators do not go through it"
        ),
        action=(
            "look at the component that uses it: the operator's type, inputs and attributes must match a loaded model "
            "or kernel"
        ),
        rows=(
            (100020, "ACL_ERROR_OP_TYPE_NOT_MATCH", "single-op type mismatch"),
            (100021, "ACL_ERROR_OP_INPUT_NOT_MATCH", "single-op inputs mismatch"),
            (100022, "ACL_ERROR_OP_OUTPUT_NOT_MATCH", "single-op outputs mismatch"),
            (100023, "ACL_ERROR_OP_ATTR_NOT_MATCH", "single-op attributes mismatch"),
            (100024, "ACL_ERROR_OP_NOT_FOUND", "single-op model not found"),
            (100025, "ACL_ERROR_OP_LOAD_FAILED", "single-op model failed to load"),
            (100028, "ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED", "binary selector not registered for the op"),
            (100029, "ACL_ERROR_KERNEL_NOT_FOUND", "op kernel not registered"),
            (100030, "ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED", "binary selector registered twice"),
            (100031, "ACL_ERROR_KERNEL_ALREADY_REGISTERED", "op kernel registered twice"),
            (148050, "ACL_ERROR_OP_UNSUPPORTED_DYNAMIC", "op does not support dynamic shapes"),
        ),
    ),
    Group(
        causes="a number that is no aclDataType or aclFormat of this release, or one that the call does not take",
        action="use ACL_FORMAT_ND and a data type that the function lists; FP8 types need CANN 8.5 or later",
        rows=(
            (100026, "ACL_ERROR_UNSUPPORTED_DATA_TYPE", "data type not supported"),
            (100027, "ACL_ERROR_FORMAT_NOT_MATCH", "format mismatch"),
        ),
    ),
    Group(
        causes="queues are used; the operators of this package need none, so something else in the process does",
        action="look at the component that creates the queue",
        rows=((100032, "ACL_ERROR_INVALID_QUEUE_ID", "queue id invalid"),),
    ),
    Group(
        causes="callbacks of a stream were subscribed twice or not at all, or their thread did not run",
        action="subscribe once, process reports in the thread that was named, and unsubscribe at the end",
        rows=(
            (100033, "ACL_ERROR_REPEAT_SUBSCRIBE", "stream subscribed twice"),
            (100034, "ACL_ERROR_STREAM_NOT_SUBSCRIBE", "stream not subscribed (deprecated, use 107015)"),
            (100035, "ACL_ERROR_THREAD_NOT_SUBSCRIBE", "thread not subscribed (deprecated, use 107012)"),
            (100036, "ACL_ERROR_WAIT_CALLBACK_TIMEOUT", "callback wait timed out (deprecated, use 507012)"),
            (100040, "ACL_ERROR_GROUP_NOT_SET", "group not set (deprecated, use 107013)"),
            (100041, "ACL_ERROR_GROUP_NOT_CREATE", "group not created (deprecated, use 107014)"),
        ),
    ),
    Group(
        causes="something else in the process finalised ACL first",
        action="close sessions before finalising ACL",
        rows=((100037, "ACL_ERROR_REPEAT_FINALIZE", "finalised twice"),),
    ),
    Group(
        causes=(
            "media processing (AIPP, JPEG) is used; the operators of this package need none, so something else in the "
            "process does"
        ),
        action="look at the component that prepares images",
        rows=(
            (100038, "ACL_ERROR_NOT_STATIC_AIPP", "AIPP is not static (deprecated, use 145015)"),
            (148052, "ACL_ERROR_UNSUPPORTED_JPEG", "JPEG coding not supported"),
        ),
    ),
    Group(
        causes="a link-time stub (devlib) was loaded instead of the runtime: no NPU driver on this host",
        action="run on a host with the driver, or name the real library folder in library_dir",
        rows=(
            (100039, "ACL_ERROR_COMPILING_STUB_MODE", "a link-time stub library was loaded instead of the real one"),
        ),
    ),
    Group(
        causes=(
            "a profiler or dump session was started, stopped or set up in the wrong order, or by two components at once"
        ),
        action="run without the profiler or dump; if that works, start and stop it in one place only",
        rows=(
            (100042, "ACL_ERROR_PROF_ALREADY_RUN", "a profiling session is already active"),
            (100043, "ACL_ERROR_PROF_NOT_RUN", "profiling was never initialised"),
            (100044, "ACL_ERROR_DUMP_ALREADY_RUN", "a dump session is already active"),
            (100045, "ACL_ERROR_DUMP_NOT_RUN", "dump was never initialised"),
            (148046, "ACL_ERROR_PROF_REPEAT_SUBSCRIBE", "same model subscribed twice for profiling"),
            (148047, "ACL_ERROR_PROF_API_CONFLICT", "two profiling API families mixed"),
            (200007, "ACL_ERROR_PROF_MODULES_UNSUPPORTED", "requested profiling modules not supported"),
            (500005, "ACL_ERROR_PROFILING_FAILURE", "profiling module failure"),
        ),
    ),
    Group(
        causes="ASCEND_OPP_PATH is not set, or names a folder without operator packages",
        action="source set_env.sh of the CANN root in use before starting Python",
        rows=((148049, "ACL_ERROR_INVALID_OPP_PATH", "ASCEND_OPP_PATH missing or wrong"),),
    ),
    Group(
        causes="a stream, event or allocation is still in use by what is to be destroyed",
        action="destroy what was made from it first",
        rows=((148051, "ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED", "a dependent resource is still alive"),),
    ),
    Group(
        causes="the host is out of memory",
        action="look at the memory of the host and at the limits of the container",
        rows=((200000, "ACL_ERROR_BAD_ALLOC", "memory allocation failed"),),
    ),
    Group(
        causes="this release or product has no such function, or the simulator does not have it",
        action="compare the release of CANN with the one the function came with",
        rows=(
            (200001, "ACL_ERROR_API_NOT_SUPPORT", "API not available in this build/device"),
            (200006, "ACL_ERROR_FEATURE_UNSUPPORTED", "feature not supported"),
        ),
    ),
    Group(
        causes="the device id is out of range, or ASCEND_RT_VISIBLE_DEVICES hides the device",
        action="compare the id with the device count and with ASCEND_RT_VISIBLE_DEVICES",
        rows=((200002, "ACL_ERROR_INVALID_DEVICE", "device invalid (deprecated, use 107001)"),),
    ),
    Group(
        causes="an address or size is not a multiple of what the call asks for",
        action="take memory from aclrtMalloc or aclrtMallocHost, and keep offsets aligned",
        rows=((200003, "ACL_ERROR_MEMORY_ADDRESS_UNALIGNED", "address alignment violated"),),
    ),
    Group(
        causes="handles of different devices or contexts are mixed, or a handle was destroyed",
        action="use handles of one session together, and keep them open for as long as they are used",
        rows=(
            (200004, "ACL_ERROR_RESOURCE_NOT_MATCH", "resources do not belong together"),
            (200005, "ACL_ERROR_INVALID_RESOURCE_HANDLE", "resource handle invalid"),
        ),
    ),
    Group(
        causes="a disk, a queue or a buffer reached its limit",
        action="free space where dumps and logs are written",
        rows=((300000, "ACL_ERROR_STORAGE_OVER_LIMIT", "storage limit exceeded"),),
    ),
    Group(
        causes=(
            "no usable device or driver, or driver and CANN do not match; this is about the host, not about arguments"
        ),
        action="check the driver, the container's device mounts and that driver and CANN versions belong together",
        telling=(
            'nearly always the installation, whatever the headline says: a message like "rtGetDevMsg ... not '
            'supported" is a mismatch of board, driver and CANN'
        ),
        rows=(
            (500000, "ACL_ERROR_INTERNAL_ERROR", "unknown internal error (also aclInit without usable device/driver)"),
        ),
    ),
    Group(
        causes=(
            "a failure inside a module that the acl layer called; the module's own code stands in the message or in "
            "the log"
        ),
        action="explain the module's code: aclnn-kvcache explain --plog finds it",
        rows=(
            (500001, "ACL_ERROR_FAILURE", "generic internal failure"),
            (500003, "ACL_ERROR_RT_FAILURE", "runtime module failure"),
        ),
    ),
    Group(
        causes=(
            "the graph engine failed; the operators of this package do not use it, so something else in the process "
            "does"
        ),
        action="look at the component that builds or loads graphs",
        rows=((500002, "ACL_ERROR_GE_FAILURE", "graph engine failure"),),
    ),
    Group(
        causes=(
            "the driver failed: not running, of another release, or the device is unhealthy or not mounted into the "
            "container"
        ),
        action="check the driver with npu-smi info, the device nodes /dev/davinci* and their permissions",
        rows=((500004, "ACL_ERROR_DRV_FAILURE", "driver module failure"),),
    ),
)
