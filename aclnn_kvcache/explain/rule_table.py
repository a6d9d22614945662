# SPDX-License-Identifier: Apache-2.0
"""An operator's rules as a table to read."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import groupby
from typing import Any

from aclnn_kvcache import status
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.rules import contracts
from aclnn_kvcache.rules.contracts import CONTRACTS, FIRST
from aclnn_kvcache.rules.predict import RISKS, Risk
from aclnn_kvcache.rules.rule import Contract, Rule


def contract(operator: str, revision: str = FIRST) -> Contract:
    """The contract of the operator with this name: the method's or the C function's, in any case.

    ``revision``: of the fused operator. Raises ArgumentError.
    """
    names = {name.lower(): found.name for found in CONTRACTS.values() for name in (found.name, found.api)}
    if operator.lower() in names:
        return contracts.contract(names[operator.lower()], revision)
    near = get_close_matches(operator.lower(), names, n=1)
    action = f"did you mean {names[near[0]]}?" if near else ""
    raise ArgumentError("operator", f"one of {', '.join(CONTRACTS)}", repr(operator), action)


def as_text(contract: Contract) -> str:
    """One line for each rule: id, what must hold, arguments; below the answer and the source that it shares.

    Behind them the risks: what neither CANN nor ``check_call`` minds, and the session refuses.
    """
    width = max(len(rule.id) for rule in contract.rules)
    revision = f", revision {contract.revision}" if contract.revision not in (None, FIRST) else ""
    lines = [f"{contract.api}, {contract.name}{revision}: {len(contract.rules)} rules, in CANN's order of checks"]
    for heading, rules in groupby(contract.rules, _heading):
        lines += ["", heading]
        lines += [_row(rule, width) for rule in rules]
    for source, risks in groupby(RISKS[contract.name], lambda risk: risk.source):
        lines += ["", f"{_REFUSED} ({source})", *(_row(risk, width) for risk in risks)]
    if contract.later:
        lines += ["", *(rule.expected for rule in contract.later_rules)]
    return "\n".join(lines)


def as_dict(contract: Contract) -> dict[str, Any]:
    """For JSON."""
    facts = {"name": contract.name, "api": contract.api, "revision": contract.revision}
    rules, risks = [_facts(rule) for rule in contract.rules], [risk._asdict() for risk in RISKS[contract.name]]
    return {**facts, "rules": rules, "risks": risks}


_REFUSED = "risks: CANN goes on, but the session refuses the call"


def _row(rule: Rule | Risk, width: int) -> str:
    return f"  {rule.id:{width}}  {rule.expected} [{', '.join(rule.arguments)}]"


def _heading(rule: Rule) -> str:
    return f"{_answer(rule)}{f', {rule.ez}' if rule.ez else ''} ({rule.source})"


def _answer(rule: Rule) -> str:
    return f"{rule.status} {status.describe(rule.status).name}" if rule.status else "not checked by CANN"


def _facts(rule: Rule) -> dict[str, Any]:
    facts = {field: getattr(rule, field) for field in ("id", "arguments", "expected", "status", "ez", "source")}
    return {**facts, "answer": _answer(rule)}
