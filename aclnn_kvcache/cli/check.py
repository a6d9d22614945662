# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache check``: what the rules say of a recorded or described call, without a library or a device."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from aclnn_kvcache.cli.backend import exit_code
from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.replay.checking import Checked, check_file
from aclnn_kvcache.rules.contracts import FIRST
from aclnn_kvcache.rules.finding import Finding

HELP = "say what is wrong with a recorded or described call, and what CANN answers; needs no library"

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "call", metavar="BUNDLE_OR_JSON", help="a bundle's folder, its manifest, or a JSON file that describes a call"
    )
    parser.add_argument("--predict", action="store_true", help="also say what phase 1 of CANN will do with the call")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def run(options: argparse.Namespace) -> int:
    document: dict[str, Any] = {"schema": SCHEMA, "command": "check", "call": options.call, "error": ""}
    try:
        checked = check_file(options.call)
    except KvCacheError as error:
        print(error, file=sys.stderr)
        if options.json:
            print(json.dumps({**document, "error": str(error), "exit_code": exit_code(error)}, indent=2))
        return exit_code(error)
    code = 1 if checked.refusal or checked.findings or checked.prediction.risks else 0
    if options.json:
        document |= {
            "operator": checked.contract.name,
            "revision": checked.contract.revision,
            "status": _status(checked),
            "findings": [{**finding._asdict(), "source": _source(checked, finding)} for finding in checked.findings],
            "risks": [risk._asdict() for risk in checked.prediction.risks],
            "refusal": checked.refusal,
            "values_known": checked.values_known,
        }
        document |= {"prediction": _prediction(checked)} if options.predict else {}
        print(json.dumps({**document, "exit_code": code}, indent=2))
    else:
        print("\n".join(_lines(checked)))
        if options.predict:
            print(checked.prediction)
        else:
            print("".join(f"  risk: {risk.message}\n" for risk in checked.prediction.risks), end="")
    return code


def _status(checked: Checked) -> int:
    return next((finding.status for finding in checked.findings if finding.status), 0)


def _source(checked: Checked, finding: Finding) -> str:
    rules = checked.contract.later_rules + checked.contract.rules
    return next((rule.source for rule in rules if rule.id == finding.rule), "")


def _prediction(checked: Checked) -> dict[str, Any]:
    prediction = checked.prediction
    document = {**prediction._asdict(), "copies": [copy._asdict() for copy in prediction.copies]}
    document["answer"] = prediction.answer and prediction.answer._asdict()
    return {**document, "risks": [risk._asdict() for risk in prediction.risks]}


def _title(checked: Checked) -> str:
    revision = checked.contract.revision
    return checked.contract.name + (f", revision {revision}" if revision not in (None, FIRST) else "")


def _lines(checked: Checked) -> list[str]:
    values = "" if checked.values_known else " (shapes, strides and attributes; values of slots are not known)"
    refused = [f"  refused: {checked.refusal}"] if checked.refusal else []
    if not checked.findings:
        wrong = "no rule is broken, but the session refuses the call" if refused else "nothing is wrong"
        if checked.prediction.risks:
            wrong = "no rule is broken and CANN goes on, but the session refuses the call on device arrays"
        return [f"{_title(checked)}: {wrong}{values}", *refused]
    status = _status(checked)
    answer = f"CANN answers {status}" if status else "CANN checks none of this and goes on"
    broken = f"{len(checked.findings)} broken rule{'s' if len(checked.findings) > 1 else ''}"
    lines = [f"{_title(checked)}: {broken}{values}; {answer}", *refused]
    for finding in checked.findings:
        cann = f"{finding.status} {finding.ez or ''}".strip() if finding.status else "not checked by CANN"
        lines += [f"  {finding.message}", f"    rule {finding.rule}; {cann}; {_source(checked, finding)}"]
    return lines
