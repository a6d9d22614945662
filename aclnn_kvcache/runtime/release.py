# SPDX-License-Identifier: Apache-2.0
"""The release of the runtime by the functions that it exports, which needs neither a file nor a variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library


SINCE = (
    ("8.5.0", "aclrtHostRegisterV2"),
    ("9.0.0", "aclrtMemAllocManaged"),
    ("9.1.0", "aclrtMemsetD32"),
    ("9.2.0-beta.1", "aclrtRecordEventWithFlag"),
    ("the release after 9.2.0-beta.1", "aclrtExceptionInfoCallbackRegister"),
)
"""The release that brought a function of the runtime, oldest first."""


def release_by_functions(library: Library) -> tuple[str, str]:
    """The release by what the runtime exports: at least the first, older than the second; either may be empty."""
    newest = max((index for index, (_, name) in enumerate(SINCE) if library.exports(name)), default=-1)
    releases = ["", *(release for release, _ in SINCE), ""]
    return releases[newest + 1], releases[newest + 2]
