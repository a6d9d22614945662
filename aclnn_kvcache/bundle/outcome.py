# SPDX-License-Identifier: Apache-2.0
"""How a call ended, from the error that it raised."""

from __future__ import annotations

from aclnn_kvcache.bundle.manifest import Outcome
from aclnn_kvcache.errors import PHASE_1, AclError
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.status import describe

MESSAGE = 1 << 16
"""Characters of a message that are kept."""

SUCCESS = Outcome(0, describe(0).name)


def outcome_of(error: Exception, contract: Contract) -> Outcome:
    kind, message = type(error).__name__, str(error)[:MESSAGE]
    if not isinstance(error, AclError):
        return Outcome(None, error=kind, message=message)
    findings = tuple(getattr(error, "findings", ()))
    phases = {contract.api + PHASE_1: "phase 1", contract.api: "checks" if findings else "phase 2"}
    phase = phases.get(error.api, "synchronize" if "Synchronize" in error.api else None)
    return Outcome(error.status, error.name, phase, error.api.partition("(")[0], kind, message, findings)
