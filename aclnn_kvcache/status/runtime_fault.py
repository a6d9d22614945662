# SPDX-License-Identifier: Apache-2.0
"""Statuses of the runtime for what failed on the device after it was queued: kernels, memory, links; of 507xxx."""

from aclnn_kvcache.status.table import Group

GROUPS = (
    Group(
        causes=(
            "a model or captured graph failed on the device; an address out of range in one of its kernels, or an "
            "earlier fault"
        ),
        action="look for the kernel's own code (507015, 507035) in the log: aclnn-kvcache explain --plog",
        rows=((507011, "ACL_ERROR_RT_MODEL_EXECUTE", "model execution failed"),),
    ),
    Group(
        causes="a kernel ran too long: too much work in one call, or a wait inside the kernel that never ends",
        action="try a smaller call, and look for NaN or impossible sizes in lengths",
        rows=(
            (507014, "ACL_ERROR_RT_AICORE_TIMEOUT", "AI Core timeout"),
            (507034, "ACL_ERROR_RT_VECTOR_CORE_TIMEOUT", "vector core timeout"),
            (507048, "ACL_ERROR_RT_FFTS_PLUS_TIMEOUT", "internal (FFTS+) task timeout"),
        ),
    ),
    Group(
        causes="a kernel read or wrote outside device memory, or an earlier queued call did",
        action="check slots, positions, seq_lens, rows of cos_sin, strides and buffer sizes of everything queued since "
        "the last synchronise",
        telling=(
            "yours, if slots, positions, strides or sizes are wrong in any call since the last good synchronise: the "
            "call that reports the fault need not be the one that made it, so synchronise after each launch to find "
            "it, and let `aclnn-kvcache check` look at its arguments. The installation, if every call is legal: "
            "kernels of another release or product"
        ),
        rows=(
            (507015, "ACL_ERROR_RT_AICORE_EXCEPTION", "AI Core exception"),
            (507035, "ACL_ERROR_RT_VECTOR_CORE_EXCEPTION", "vector core exception"),
            (507016, "ACL_ERROR_RT_AICORE_TRAP_EXCEPTION", "AI Core trap"),
            (507036, "ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION", "vector core trap"),
            (507042, "ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW", "AI Core out-of-bounds read trap"),
            (507043, "ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW", "AI Core out-of-bounds write trap"),
            (507044, "ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW", "vector core out-of-bounds read trap"),
            (507045, "ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW", "vector core out-of-bounds write trap"),
            (507049, "ACL_ERROR_RT_FFTS_PLUS_EXCEPTION", "internal (FFTS+) task exception"),
            (507050, "ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION", "internal (FFTS+) task trap"),
        ),
    ),
    Group(
        causes=(
            "a task on the device's AI CPU failed; the operators of this package run on AI cores, so another operator "
            "did it"
        ),
        action="find the operator in the log (aclnn-kvcache explain --plog)",
        rows=(
            (507017, "ACL_ERROR_RT_AICPU_TIMEOUT", "AI CPU timeout"),
            (507018, "ACL_ERROR_RT_AICPU_EXCEPTION", "AI CPU exception"),
            (507019, "ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR", "AI CPU dump response error"),
            (507020, "ACL_ERROR_RT_AICPU_MODEL_RSP_ERR", "AI CPU model response error"),
            (507900, "ACL_ERROR_RT_AICPU_INTERNAL_ERROR", "AI CPU internal error"),
            (507902, "ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR", "AI CPU scheduling response error"),
        ),
    ),
    Group(
        causes="memory of the device is defective",
        action="stop using the device, look at npu-smi info for ECC errors, and have it serviced",
        rows=(
            (507053, "ACL_ERROR_RT_DEVICE_MEM_ERROR", "uncorrectable device memory error"),
            (507054, "ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR", "HBM multi-bit ECC error"),
            (507055, "ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR", "suspected device memory error"),
        ),
    ),
    Group(
        causes="a link between devices or to another host failed",
        action="check the link and the remote device; the operators of this package use one device only",
        rows=(
            (507056, "ACL_ERROR_RT_LINK_ERROR", "link between devices lost"),
            (507057, "ACL_ERROR_RT_SUSPECT_REMOTE_ERROR", "suspected fault at the remote device"),
            (507914, "ACL_ERROR_RT_L3_PORT_ERROR", "L3 port error"),
        ),
    ),
)
