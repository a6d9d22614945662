# SPDX-License-Identifier: Apache-2.0
"""The environment variables that matter to the operators, and those that people set in vain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aclnn_kvcache.bundle.recorder import RECORD, RECORD_FAILING
from aclnn_kvcache.native.discovery import OVERRIDE
from aclnn_kvcache.native.revisions import QKV, QKV_ABI, REVISIONS
from aclnn_kvcache.runtime.device import BLOCKING

OURS = "ACLNN_KVCACHE_"
PROFILE = "ACLSIM_PROFILE"
SWITCH = ("0", "1")


class Variable(NamedTuple):
    does: str
    paths: bool = False
    """It holds one path, or several separated by colons, which must be there."""
    allowed: tuple[str, ...] = ()
    """The only values that sessions take, where it is not a matter of other things."""
    ignored: bool = False
    """Others read it; the calls of this package do not depend on it."""


VARIABLES: Mapping[str, Variable] = {
    OVERRIDE: Variable("the only folder that libraries are taken from", paths=True),
    QKV_ABI: Variable("the revision of the fused operator where no header tells it", allowed=tuple(REVISIONS[QKV])),
    BLOCKING: Variable("1 makes every call wait for its work, for debugging: calls are slow", allowed=SWITCH),
    RECORD: Variable("folder that every call is recorded in: calls are slow"),
    RECORD_FAILING: Variable("1 records only calls that fail", allowed=SWITCH),
    "ASCEND_HOME_PATH": Variable("root of CANN, searched for libraries first", paths=True),
    "ASCEND_TOOLKIT_HOME": Variable("root of CANN, searched for libraries second", paths=True),
    "ASCEND_OPP_PATH": Variable("the operator package with the kernels; custom ones in its vendors", paths=True),
    "ASCEND_CUSTOM_OPP_PATH": Variable("custom operator packages, before all others", paths=True),
    "LD_LIBRARY_PATH": Variable("where the loader finds what libraries depend on; read when a process starts"),
    "ASCEND_PROCESS_LOG_PATH": Variable("folder of CANN's logs"),
    "ASCEND_WORK_PATH": Variable("folder of CANN's logs (below log) and of other files it writes"),
    "ASCEND_GLOBAL_LOG_LEVEL": Variable("level of CANN's logs"),
    "ASCEND_MODULE_LOG_LEVEL": Variable("level of CANN's logs by module"),
    "ASCEND_GLOBAL_EVENT_ENABLE": Variable("whether events are logged"),
    "ASCEND_HOST_LOG_FILE_NUM": Variable("how many log files a process keeps"),
    "ASCEND_SLOG_PRINT_TO_STDOUT": Variable("1 prints CANN's logs instead of writing files"),
    "ASCEND_LOG_PRINT_TO_STDOUT": Variable("the same, in releases after 9.2.0-beta.1"),
    "ASCEND_LOG_SYNC_SAVE": Variable("whether each message is written at once"),
    "ASCEND_LOG_DEVICE_FLUSH_TIMEOUT": Variable("milliseconds that the end of ACL waits for the device's logs"),
    "ACLNN_CACHE_LIMIT": Variable("how many executors CANN keeps for repeated calls of phase 1"),
    "ASCEND_CACHE_PATH": Variable("folder of what CANN compiles and keeps"),
    "NPU_COLLECT_PATH": Variable("CANN runs kernels made for debugging and collects data: calls are slow"),
    "ASCEND_COREDUMP_SIGNAL": Variable("signals that CANN handles when the process crashes"),
    PROFILE: Variable("settings of the simulator: product, devices, release, faults"),
    "ASCEND_LAUNCH_BLOCKING": Variable(
        "read by torch_npu only: it does not make calls of this package wait", ignored=True
    ),
    "TASK_QUEUE_ENABLE": Variable("read by torch_npu only: calls of this package never enter its queue", ignored=True),
    "ACLNN_AICPU_CACHE_LIMIT": Variable("for operators on AI CPU only: none of this package's", ignored=True),
    "HCCL_EXEC_TIMEOUT": Variable("for communication between devices only", ignored=True),
}
"""ASCEND_RT_VISIBLE_DEVICES has a check of its own."""
