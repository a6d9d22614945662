# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache smoke``: runs the operators on seeded cases and compares every byte with the oracle."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path
from typing import TextIO

from aclnn_kvcache.cli.backend import RUNTIME_FAILURE, add_backend_arguments, exit_code
from aclnn_kvcache.cli.numbers import INDEX, SECONDS, SEED
from aclnn_kvcache.errors import ArgumentError, KvCacheError
from aclnn_kvcache.session import Session
from aclnn_kvcache.smoke.beside import cases_beside, run_beside
from aclnn_kvcache.smoke.cases import CASES, names_of
from aclnn_kvcache.smoke.report import SCHEMA, Report, as_json, as_junit, header, line, summary
from aclnn_kvcache.smoke.runner import run_cases
from aclnn_kvcache.smoke.watchdog import Watchdog

HELP = "run the operators on seeded cases and compare every byte with the oracle"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend_arguments(parser)
    parser.add_argument("--device", type=INDEX, default=0, metavar="N", help="index among the visible devices")
    parser.add_argument("--seed", type=SEED, default=0, metavar="N", help="seed of the cases' data (0)")
    parser.add_argument(
        "--case", action="append", choices=sorted(CASES), metavar="NAME", help="only this case; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--timeout", type=SECONDS, default=300.0, metavar="SECONDS", help="hard limit of the run (300)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")
    parser.add_argument("--junit", type=report_file, metavar="FILE", help="write a JUnit report there")


def report_file(text: str) -> Path:
    path = Path(text)
    if not path.parent.is_dir() or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a file in an existing folder")
    return path


def run(options: argparse.Namespace) -> int:
    if options.list:
        print(_cases(options.json))
        return 0
    report = Report(seed=options.seed)
    # With --json standard output holds the document and nothing else.
    screen = sys.stderr if options.json else sys.stdout
    with Watchdog(options.timeout, RUNTIME_FAILURE) as watchdog:
        report.exit_code = _run(options, report, screen, watchdog)
    if options.json:
        print(as_json(report))
    if options.junit:
        options.junit.write_text(as_junit(report), encoding="utf-8")
    return report.exit_code


def _cases(in_json: bool) -> str:
    if not in_json:
        return "\n".join(f"{name:32} {case.revisions:4} {case.about}" for name, case in CASES.items())
    cases = [
        {"name": name, "operator": case.operator, "revisions": case.revisions, "about": case.about}
        for name, case in CASES.items()
    ]
    return json.dumps({"schema": SCHEMA, "command": "smoke", "cases": cases, "exit_code": 0}, indent=2)


def _run(options: argparse.Namespace, report: Report, screen: TextIO, watchdog: Watchdog) -> int:
    def say(text: str) -> None:
        print(text, file=screen, flush=True)

    try:
        session = Session(options.backend, options.device, library_dir=options.library_dir, qkv_abi=options.qkv_abi)
    except KvCacheError as error:
        report.error = str(error)
        print(error, file=sys.stderr)
        return exit_code(error)
    watchdog.guard(session)
    try:
        report.describe(session)
        wanted = options.case or list(CASES)
        names = [name for name in wanted if name in names_of(report.revision)]
        beside = {} if options.library_dir else cases_beside(session, wanted)
        if options.case:
            _require_all(wanted, [*names, *chain(*beside.values())], report.revision)
        say(header(report))
        for result in run_cases(session, names, options.seed, watchdog.remaining, _command(options)):
            report.results.append(result._replace(revision=report.revision))
            say(line(result, len(report.results), len(names)))
            if result.verdict != "pass":
                say(f"    rerun: {result.rerun}")
        for revision, others in beside.items():
            say("")
            seconds = max(watchdog.remaining(), 0.001)
            words = [*_place(options), "--seed", str(options.seed), "--timeout", f"{seconds:g}"]
            run_beside(revision, others, words, report, screen)
    except KvCacheError as error:
        report.error = str(error)
        print(error, file=sys.stderr)
        return exit_code(error)
    finally:
        _give_back(session, report)
    say(summary(report))
    if report.error or any(result.verdict == "error" for result in report.results):
        return RUNTIME_FAILURE
    return 0 if all(result.verdict == "pass" for result in report.results) else 1


def _require_all(wanted: Iterable[str], runnable: Collection[str], revision: str) -> None:
    missing = [name for name in wanted if name not in runnable]
    if missing:
        raise ArgumentError(
            "--case",
            f"cases that revision {revision} of the fused operator has",
            ", ".join(f"{name} (revision {' or '.join(CASES[name].revisions)})" for name in missing),
            "--qkv-abi states another for the simulator",
        )


def _place(options: argparse.Namespace) -> list[str]:
    words = ["--backend", options.backend, "--device", str(options.device)]
    return words + (["--library-dir", options.library_dir] if options.library_dir else [])


def _command(options: argparse.Namespace) -> str:
    stated = ["--qkv-abi", options.qkv_abi] if options.qkv_abi else []
    return shlex.join(["aclnn-kvcache", "smoke", *_place(options), *stated])


def _give_back(session: Session, report: Report) -> None:
    try:
        session.close()
    except KvCacheError as error:
        report.error = report.error or str(error)
        print(error, file=sys.stderr)
