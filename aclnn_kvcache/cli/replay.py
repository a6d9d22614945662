# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache replay``: makes a recorded call again and compares with the oracle and with what was recorded."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from aclnn_kvcache.bundle.manifest import Outcome
from aclnn_kvcache.bundle.reading import read_bundle
from aclnn_kvcache.cli.backend import add_backend_arguments, exit_code
from aclnn_kvcache.cli.numbers import INDEX
from aclnn_kvcache.compare.report import Comparison
from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.replay.replay import Replay, replay
from aclnn_kvcache.session import Session

HELP = "make a recorded call again, and compare with the oracle and with what was recorded"

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="the folder of a recorded call, or its manifest")
    add_backend_arguments(parser)
    parser.add_argument("--device", type=INDEX, default=0, metavar="N", help="index among the visible devices")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def run(options: argparse.Namespace) -> int:
    document: dict[str, Any] = {"schema": SCHEMA, "command": "replay", "bundle": options.bundle, "error": ""}
    try:
        bundle = read_bundle(options.bundle)
        # The simulator has every revision; what CANN's library has, only its header or its owner can tell.
        recorded = bundle.manifest.call.revision if options.backend == "simulator" else None
        place = {"library_dir": options.library_dir, "qkv_abi": options.qkv_abi or recorded}
        with Session(options.backend, options.device, **place, record=False) as session:
            here = {
                "backend": session.backend,
                "device": session.device,
                "soc_name": session.soc_name,
                "cann_version": session.cann_version,
            }
            report = replay(bundle, session)
        document |= {**here, **_document(report), "exit_code": 0 if report.ok else 1}
    except KvCacheError as error:
        print(error, file=sys.stderr)
        document |= {"error": str(error), "exit_code": exit_code(error)}
    if options.json:
        print(json.dumps(document, indent=2))
    elif not document["error"]:
        print(_text(here, report))
    return int(document["exit_code"])


def _document(report: Replay) -> dict[str, Any]:
    return {
        "operator": report.manifest.call.operator,
        "recorded": _outcome(report.manifest.outcome),
        "replayed": _outcome(report.outcome),
        "same_target": report.same_target,
        "as_recorded": report.as_recorded,
        "oracle_refuses": report.oracle_refuses,
        "oracle": _comparisons(report.oracle),
        "bytes": _comparisons(report.recorded),
        "ok": report.ok,
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {**outcome._asdict(), "findings": [finding._asdict() for finding in outcome.findings]}


def _comparisons(comparisons: dict[str, Comparison]) -> dict[str, Any]:
    return {name: {"ok": result.ok, "summary": result.summary()} for name, result in comparisons.items()}


def _text(here: dict[str, Any], report: Replay) -> str:
    target = report.manifest.target
    note = " (simulated: no NPU is involved)" if here["backend"] == "simulator" else ""
    recorded = f"{target.backend}, {target.soc_name}, CANN {target.cann_version}"
    replayed = f"{here['backend']}{note}, {here['soc_name']}, CANN {here['cann_version']}"
    lines = [
        f"operator   {report.manifest.call.operator}, recorded {report.manifest.time}",
        f"recorded   {recorded}: {_ending(report.manifest.outcome)}",
        f"replayed   {replayed}: {_ending(report.outcome)}",
    ]
    if not report.ends_alike or report.outcome.error:
        lines += [f"    {line}" for line in (report.outcome.message or "the call succeeds").splitlines()]
    if report.oracle_refuses:
        lines += [f"oracle     says nothing: {report.oracle_refuses}"]
    written = report.manifest.call.contract.written
    lines += [f"oracle     {name}: {r.summary()}" for name, r in report.oracle.items() if name in written or not r.ok]
    lines += [f"recorded   {name}: {result.summary()}" for name, result in report.recorded.items() if not result.ok]
    verdict = "good" if report.ok else "DIFFERS"
    equal = "as recorded, byte by byte" if report.as_recorded else "not as recorded"
    if report.as_recorded and report.outcome.error:
        launched = report.outcome.phase in ("phase 2", "synchronize")
        equal = "fails as recorded" if launched else "refused as recorded"
    excuse = "" if report.as_recorded or not report.ok else ", as may be on another backend, CANN or SoC"
    return "\n".join([*lines, f"{verdict}: {equal}{excuse}"])


def _ending(outcome: Outcome) -> str:
    if outcome.error is None:
        return "succeeds"
    phase = f" in {outcome.phase}" if outcome.phase else ""
    status = "" if outcome.status is None else f", status {outcome.status} {outcome.name}"
    return f"{outcome.error}{phase}{status}"
