# SPDX-License-Identifier: Apache-2.0
"""Raises a status of the library with all that can be known where it failed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from aclnn_kvcache.errors import AclError, KvCacheError, check

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library


def check_native(library: Library, status: int, api: str) -> None:
    """``errors.check``, on the failing thread, with library, version, log and, if a device did not open, a verdict."""
    if status == 0:
        return
    try:
        check(status, api, library.aclGetRecentErrMsg)
    except AclError as error:
        from aclnn_kvcache.explain.context import describe_failure  # most processes never need it

        with suppress(KvCacheError, OSError):  # the failure itself is what matters
            describe_failure(error, library, api.partition("(")[0])
        raise
