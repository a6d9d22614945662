# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache bench``: what launches, oracles and kernels cost, each against a baseline of the same run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable

from aclnn_kvcache.bench.imports import import_figures
from aclnn_kvcache.bench.kernels import kernel_figures, oracle_figures
from aclnn_kvcache.bench.launches import MANY, growth, launch_figures
from aclnn_kvcache.bench.measure import Figure
from aclnn_kvcache.bench.report import Report, as_json, header, line, surroundings
from aclnn_kvcache.cli.backend import add_backend_arguments, exit_code
from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.session import Session

HELP = "measure launches, oracles and kernels, each against a baseline of the same run"

PARTS: dict[str, Callable[[Session, int], Iterable[Figure]]] = {
    "launch": launch_figures,
    "oracle": lambda session, repeats: oracle_figures(repeats),
    "kernel": kernel_figures,
    "import": lambda session, repeats: import_figures(repeats),
    "growth": lambda session, repeats: [growth(session, min(MANY, repeats * 5000))],
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend_arguments(parser)
    parser.add_argument("--device", type=int, default=0, metavar="N", help="index among the visible devices")
    parser.add_argument("--repeats", type=_repeats, default=20, metavar="N", help="runs of each measurement (20)")
    parser.add_argument("--only", action="append", choices=list(PARTS), metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def _repeats(text: str) -> int:
    value = int(text)
    if not 2 <= value <= 10_000:
        raise argparse.ArgumentTypeError("must be from 2 to 10000")
    return value


def run(options: argparse.Namespace) -> int:
    screen = sys.stderr if options.json else sys.stdout
    report = Report({}, [])
    try:
        with Session(
            options.backend, options.device, library_dir=options.library_dir, qkv_abi=options.qkv_abi
        ) as session:
            report = report._replace(surroundings=surroundings(session))
            print(header(report.surroundings), file=screen, flush=True)
            figures: list[Figure] = []
            for part in options.only or PARTS:
                for item in PARTS[part](session, options.repeats):
                    figures.append(item)
                    print(line(item), file=screen, flush=True)
            report = report._replace(figures=figures)
    except KvCacheError as error:
        print(error, file=sys.stderr)
        report = report._replace(exit_code=exit_code(error), error=str(error))
    if options.json:
        print(as_json(report))
    return report.exit_code
