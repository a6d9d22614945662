# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache explain``: what a status, a message code, a pasted text or CANN's own log means, and what to do."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from aclnn_kvcache.cli.backend import NO_BACKEND, RUNTIME_FAILURE, WRONG_USAGE
from aclnn_kvcache.cli.numbers import PROCESS
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.explain import explain, plog, rule_table
from aclnn_kvcache.explain.asking import is_code
from aclnn_kvcache.explain.explanation import Explanation
from aclnn_kvcache.native.revisions import QKV, REVISIONS
from aclnn_kvcache.rules.contracts import FIRST

HELP = "say what a status, a message code, a report, an error text or CANN's log means, and what to do about it"

SCHEMA = 1

UNKNOWN = 1
"""Exit code where nothing is known of what was asked for, not even its family."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        nargs="*",
        metavar="WHAT",
        help="a status (161002), its C name, a message code (EZ0028), a report (double_free) or a text; - or nothing: "
        "standard input",
    )
    parser.add_argument(
        "--plog",
        action="store_true",
        help="explain CANN's log of the process that wrote last; exit code 3 if none is there",
    )
    parser.add_argument("--pid", type=PROCESS, metavar="N", help="with --plog: the log of this process")
    parser.add_argument("--log-dir", metavar="DIR", help="with --plog: this folder, not the one of CANN's variables")
    parser.add_argument("--rules", metavar="OPERATOR", help="print an operator's rules, and what CANN answers to each")
    parser.add_argument(
        "--qkv-abi", choices=list(REVISIONS[QKV]), default=FIRST, help="with --rules: revision of the fused operator"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def run(options: argparse.Namespace) -> int:
    document: dict[str, Any] = {"schema": SCHEMA, "command": "explain", "explanations": [], "log": None, "rules": None}
    parts: list[str] = []
    try:
        code = _answer(options, document, parts)
        document["error"] = ""
    except ArgumentError as error:
        code, document["error"] = WRONG_USAGE, str(error)
        print(error, file=sys.stderr)
    if options.json:
        print(json.dumps({**document, "exit_code": code}, indent=2))
    elif parts:
        print("\n\n".join(parts))
    return code


def _answer(options: argparse.Namespace, document: dict[str, Any], parts: list[str]) -> int:
    """Adds what was asked for to the document and to the parts of the text, and returns the exit code."""
    code = 0
    if not options.plog and (options.pid or options.log_dir):
        raise ArgumentError("--pid and --log-dir", "--plog beside them", "them alone", "add --plog")
    for text in _texts(options):
        explanation = explain(text)
        code = code if explanation.is_known else UNKNOWN
        document["explanations"].append(explanation.as_dict())
        parts.append(str(explanation))
    if options.rules is not None:
        contract = rule_table.contract(options.rules, options.qkv_abi)
        document["rules"] = rule_table.as_dict(contract)
        parts.append(rule_table.as_text(contract))
    if options.plog:
        document["log"], text, found = _log(options)
        code = found or code
        parts.append(text)
    if not parts:
        raise ArgumentError("WHAT", "a code or a text", "nothing", "pass one, or send a text to standard input")
    return code


def _texts(options: argparse.Namespace) -> list[str]:
    """What is to be explained: each code on its own, or all words together as one text."""
    if options.what == ["-"]:
        return _standard_input()
    if options.what:
        return options.what if all(map(is_code, options.what)) else [" ".join(options.what)]
    asked = options.plog or options.rules is not None
    return [] if asked or sys.stdin is None or sys.stdin.isatty() else _standard_input()


def _standard_input() -> list[str]:
    text = sys.stdin.buffer.read().decode("utf-8", "replace") if sys.stdin else ""
    return [text] if text.strip() else []


def _log(options: argparse.Namespace) -> tuple[dict[str, Any], str, int]:
    """The log for JSON, as text, and the exit code."""
    place = plog.log_folder(os.environ)
    if options.log_dir:
        place = plog.LogPlace(options.log_dir, "--log-dir", os.path.isdir(options.log_dir), to_stdout="")
    log = plog.read(place.path, options.pid)
    causes = plog.causes(log)
    document = {"place": place._asdict(), **log._asdict(), "lines": [line._asdict() for line in log.lines]}
    document["causes"] = [cause._asdict() for cause in causes]
    text = "\n".join(_log_text(options, place, log))
    text += f"\n\n{Explanation('', causes)}" if causes else ""
    if log.problems and len(log.problems) >= len(log.files):
        return document, text, RUNTIME_FAILURE
    return document, text, 0 if log.files else NO_BACKEND


def _log_text(options: argparse.Namespace, place: plog.LogPlace, log: plog.Log) -> Iterator[str]:
    yield f"logs  {place}"
    yield from (f"file  {path}" for path in log.files)
    yield from (f"cannot be read: {problem}" for problem in log.problems)
    if not log.files:
        yield f"no log of {f'process {options.pid}' if options.pid else 'any process'} there"
    elif not log.lines and not log.problems:
        nothing = "no error" if log.recognised else "no line of CANN's form"
        yield f"{nothing} in the log of process {log.pid}"
    if log.unread:
        yield f"{log.unread} bytes before the last {plog.TAIL >> 20} MiB were not read"
    if log.older:
        yield f"{log.older} older lines are left out"
    if log.lines:
        yield from ("", *map(str, log.lines))
    if log.noise:
        yield f"{log.noise} lines of usual noise are left out"
