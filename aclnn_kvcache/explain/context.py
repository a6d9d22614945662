# SPDX-License-Identifier: Apache-2.0
"""What is known around a failure of the library: where it is, of which release, and what speaks for which cause."""

from __future__ import annotations

import os
from collections.abc import Sequence

from aclnn_kvcache.errors import PHASE_1, AclError
from aclnn_kvcache.explain.plog import log_folder
from aclnn_kvcache.explain.verdict import AMBIGUOUS, OPENING, Evidence, judge
from aclnn_kvcache.native.installation import mapped_roots
from aclnn_kvcache.native.kernels import kernel_package
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.native.version import cann_version
from aclnn_kvcache.rules.finding import Finding


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


def describe_failure(error: AclError, library: Library, function: str) -> None:
    """Tells an error what belongs to no call: place, release, log and, if a device did not open, a verdict."""
    locate(error, library, function)
    if error.status in OPENING:
        error.attach(verdict=judge(evidence_of(error, library)))
