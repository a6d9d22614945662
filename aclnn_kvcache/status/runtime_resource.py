# SPDX-License-Identifier: Apache-2.0
"""Statuses of the runtime for resources and unsupported features: 207xxx."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes="driver, runtime and toolkit come from different releases, or the product lacks the feature",
        action="compare the versions of driver and CANN",
        rows=((207000, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT", "feature not supported on this product/argument"),),
    ),
    Group(
        causes="device memory is exhausted",
        action="close arrays that are no longer used, or use a smaller cache",
        rows=((207001, "ACL_ERROR_RT_MEMORY_ALLOCATION", "device memory exhausted"),),
    ),
    Group(
        causes="memory was freed twice, or the address is not the one that was allocated",
        action="free each allocation once, by the pointer that aclrtMalloc returned",
        rows=((207002, "ACL_ERROR_RT_MEMORY_FREE", "memory free failed"),),
    ),
    Group(
        causes="an operator's arithmetic overflowed, and overflow is set to be reported",
        action="look for infinities and NaN in the inputs, and at the scales",
        rows=(
            (207003, "ACL_ERROR_RT_AICORE_OVER_FLOW", "AI Core arithmetic overflow reported"),
            (207016, "ACL_ERROR_RT_AIVEC_OVER_FLOW", "vector core overflow reported"),
            (207017, "ACL_ERROR_RT_OVER_FLOW", "overflow reported"),
        ),
    ),
    Group(
        causes="no NPU is visible to this process",
        action="check the driver, /dev/davinci*, permissions and ASCEND_RT_VISIBLE_DEVICES",
        rows=((207004, "ACL_ERROR_RT_NO_DEVICE", "no usable device"),),
    ),
    Group(
        causes="the runtime or the driver could not get a resource: host memory, a handle, or a queue of the device",
        action="look at the memory of the host, at the limits of the container, and at other processes on the device",
        rows=(
            (
                207005,
                "ACL_ERROR_RT_RESOURCE_ALLOC_FAIL",
                "resource allocation failed (also malloc failure other than out-of-memory)",
            ),
        ),
    ),
    Group(
        causes=(
            "the process may not use the device: its user is in no group that may, or the container does not allow it"
        ),
        action="check the owner and mode of /dev/davinci*, and the groups of the user",
        rows=((207006, "ACL_ERROR_RT_NO_PERMISSION", "no permission"),),
    ),
    Group(
        causes="streams, events or other handles are made and never destroyed, or other processes hold them",
        action="destroy them when done, or use them again; limits are per device",
        rows=(
            (207007, "ACL_ERROR_RT_NO_EVENT_RESOURCE", "out of events"),
            (207008, "ACL_ERROR_RT_NO_STREAM_RESOURCE", "out of streams"),
            (207009, "ACL_ERROR_RT_NO_NOTIFY_RESOURCE", "out of notifies"),
            (207010, "ACL_ERROR_RT_NO_MODEL_RESOURCE", "out of models"),
            (207011, "ACL_ERROR_RT_NO_CDQ_RESOURCE", "out of internal cdq resources"),
            (207012, "ACL_ERROR_RT_OVER_LIMIT", "over a count limit"),
        ),
    ),
    Group(
        causes="queues are used; the operators of this package need none, so something else in the process does",
        action="look at the component that uses the queue",
        rows=(
            (207013, "ACL_ERROR_RT_QUEUE_EMPTY", "queue empty"),
            (207014, "ACL_ERROR_RT_QUEUE_FULL", "queue full"),
            (207015, "ACL_ERROR_RT_REPEATED_INIT", "initialised twice (queues)"),
        ),
    ),
    Group(
        causes="the device itself has no memory left, for tasks or for its own use",
        action="close what is no longer used in this process, and look for other processes on the device",
        rows=((207018, "ACL_ERROR_RT_DEVICE_OOM", "device ran out of memory"),),
    ),
    Group(
        causes="the driver is older than the runtime",
        action="update the driver to the one that the release of CANN asks for",
        rows=((207019, "ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP", "driver cannot update this op"),),
    ),
    Group(
        causes="the driver did not answer in time: the device is busy, held by another process, or unhealthy",
        action="look at the device with npu-smi info and at other processes on it",
        rows=((207020, "ACL_ERROR_RT_TIMEOUT", "driver operation timed out"),),
    ),
    Group(
        causes="devices are linked in a way that this call cannot use",
        action="use devices of one node, or another way to copy between them",
        rows=((207021, "ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED", "link type not supported"),),
    ),
)
