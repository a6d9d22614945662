# SPDX-License-Identifier: Apache-2.0
"""The version of the loaded CANN."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING

from aclnn_kvcache.native.packages import package

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library

UNKNOWN = "unknown"


def cann_version(library: Library) -> str:
    """The public version of the runtime package: as the library says, else from the files around it, else "unknown".

    The library reads ``$ASCEND_HOME_PATH/share/info``, which is not set where set_env.sh was not sourced.
    """
    if library.exports("aclsysGetVersionStr"):
        text = ctypes.create_string_buffer(128)
        if library.aclsysGetVersionStr(b"runtime", text) == 0:
            return text.value.decode("utf-8", "replace").strip() or UNKNOWN
        if library.exports("aclGetRecentErrMsg"):
            library.aclGetRecentErrMsg()  # what it said about that is nobody's error
    for parent in Path(library.paths[0]).parents[:4]:
        for name in ("share/info/runtime/version.info", "runtime/version.info"):
            if version := package("runtime", parent / name).version:
                return version
    return UNKNOWN
