# SPDX-License-Identifier: Apache-2.0
"""Raises a status of the library with all that can be known where it failed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from aclnn_kvcache.errors import PHASE_1, AclError, KvCacheError, check
from aclnn_kvcache.explain.plog import log_folder
from aclnn_kvcache.explain.verdict import AMBIGUOUS, OPENING, Evidence, judge
from aclnn_kvcache.native.installation import mapped_roots
from aclnn_kvcache.native.kernels import kernel_package
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.native.version import cann_version
from aclnn_kvcache.rules.finding import Finding


def check_native(library: Library, status: int, api: str) -> None:
    """``errors.check``, on the failing thread, with library, version, log and, if a device did not open, a verdict."""
    if status == 0:
        return
    try:
        check(status, api, library.aclGetRecentErrMsg)
    except AclError as error:
        with suppress(KvCacheError, OSError):  # the failure itself is what matters
            locate(error, library, api.partition("(")[0])
            if status in OPENING:
                error.attach(verdict=judge(evidence_of(error, library)))
        raise


def locate(error: AclError, library: Library, function: str) -> None:
    """Tells an error where the function is, of which release, and where CANN writes its log."""
    version = cann_version(library)
    error.attach(library=library.home_of(function), cann_version=version, log=str(log_folder(os.environ)))


def evidence_of(
    error: AclError, library: Library, findings: Sequence[Finding] = (), *, rules_asked: bool = False
) -> Evidence:
    """What speaks for and against the arguments of a failed call; ``findings`` are what the rules say of them."""
    evidence = Evidence(error.status, error.library_message, tuple(finding.message for finding in findings))
    if error.status not in AMBIGUOUS:
        return evidence
    soc_name = (library.aclrtGetSocName() or b"").decode("utf-8", "replace")
    evidence = evidence._replace(
        legal=rules_asked and not findings,
        operator=error.operator,
        soc_name=soc_name,
        roots=tuple(root.path for root in mapped_roots()),
        cann_version=error.cann_version,
    )
    if error.operator:
        package = kernel_package(error.operator, library.home_of(error.operator + PHASE_1), os.environ)
        evidence = evidence._replace(kernels_found=package.found, kernels_searched=package.searched)
    return evidence
