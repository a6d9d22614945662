# SPDX-License-Identifier: Apache-2.0
"""Call, check and debug the aclnn KV-cache operators of Ascend CANN, on an NPU or on the bundled simulator.

Importing this package loads no library, reads no environment and writes no file.
"""

from typing import TYPE_CHECKING, Any

from aclnn_kvcache.compare import compare
from aclnn_kvcache.errors import (
    AbiMismatchError,
    AclError,
    AclnnInnerError,
    AclnnParameterError,
    ArgumentError,
    BundleError,
    ClosedError,
    ContextError,
    DeviceFaultError,
    DeviceUnavailableError,
    ExecutorConsumedError,
    ForkedProcessError,
    KvCacheError,
    LibraryConflictError,
    LibraryNotFoundError,
    OutOfDeviceMemory,
    OutOfHostMemory,
    RecordWarning,
    SymbolNotFoundError,
    SynchronizeTimeoutError,
)
from aclnn_kvcache.explain import explain
from aclnn_kvcache.ops.plan import Plan
from aclnn_kvcache.preflight import check_call
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.runtime.event import Event
from aclnn_kvcache.runtime.memory import DeviceArray
from aclnn_kvcache.runtime.reports import Report
from aclnn_kvcache.runtime.stream import Stream
from aclnn_kvcache.session import Session

if TYPE_CHECKING:
    from aclnn_kvcache import oracle
    from aclnn_kvcache.compare.report import Comparison
    from aclnn_kvcache.explain.explanation import Explanation

__version__ = "0.1.0"

__all__ = [
    "AbiMismatchError",
    "AclError",
    "AclnnInnerError",
    "AclnnParameterError",
    "ArgumentError",
    "BundleError",
    "ClosedError",
    "Comparison",
    "ContextError",
    "DeviceArray",
    "DeviceFaultError",
    "DeviceUnavailableError",
    "Event",
    "ExecutorConsumedError",
    "Explanation",
    "Finding",
    "ForkedProcessError",
    "KvCacheError",
    "LibraryConflictError",
    "LibraryNotFoundError",
    "OutOfDeviceMemory",
    "OutOfHostMemory",
    "Plan",
    "RecordWarning",
    "Report",
    "Session",
    "Stream",
    "SymbolNotFoundError",
    "SynchronizeTimeoutError",
    "TensorSpec",
    "check_call",
    "compare",
    "explain",
    "oracle",
]


def __getattr__(name: str) -> Any:
    # At their first use: who only calls operators does not wait for the oracle's tables and the texts of reports.
    if name == "oracle":
        import aclnn_kvcache.oracle as oracle

        return oracle
    if name == "Comparison":
        from aclnn_kvcache.compare.report import Comparison

        return Comparison
    if name == "Explanation":
        from aclnn_kvcache.explain.explanation import Explanation

        return Explanation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
