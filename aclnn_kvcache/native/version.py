# SPDX-License-Identifier: Apache-2.0
"""The version of the loaded CANN."""

from __future__ import annotations

import ctypes
from pathlib import Path

from aclnn_kvcache.errors import SymbolNotFoundError
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.native.packages import package

UNKNOWN = "unknown"

SINCE = (
    ("8.5.0", "aclrtHostRegisterV2"),
    ("9.0.0", "aclrtMemAllocManaged"),
    ("9.1.0", "aclrtMemsetD32"),
    ("9.2.0-beta.1", "aclrtRecordEventWithFlag"),
    ("the release after 9.2.0-beta.1", "aclrtExceptionInfoCallbackRegister"),
)
"""The release that brought a function of the runtime, oldest first."""


def cann_version(library: Library) -> str:
    """The public version of the runtime package: as the library says, else from the files around it, else "unknown".

    The library reads ``$ASCEND_HOME_PATH/share/info``, which is not set where set_env.sh was not sourced.
    """
    text = ctypes.create_string_buffer(128)
    try:
        if library.aclsysGetVersionStr(b"runtime", text) == 0:
            return text.value.decode("utf-8", "replace").strip() or UNKNOWN
    except SymbolNotFoundError:
        pass
    library.aclGetRecentErrMsg()
    for parent in Path(library.paths[0]).parents[:4]:
        for name in ("share/info/runtime/version.info", "runtime/version.info"):
            if version := package("runtime", parent / name).version:
                return version
    return UNKNOWN


def release_by_functions(library: Library) -> tuple[str, str]:
    """The release by what the runtime exports: at least the first, older than the second; either may be empty."""
    newest = max((index for index, (_, name) in enumerate(SINCE) if library.exports(name)), default=-1)
    releases = ["", *(release for release, _ in SINCE), ""]
    return releases[newest + 1], releases[newest + 2]
