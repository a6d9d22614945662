# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache bench``: what launches, oracles and kernels cost, each against a baseline of the same run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

from aclnn_kvcache.bench.imports import import_figures
from aclnn_kvcache.bench.kernels import kernel_figures, oracle_figures
from aclnn_kvcache.bench.launches import MANY, growth, launch_figures
from aclnn_kvcache.bench.measure import Figure
from aclnn_kvcache.bench.report import Report, as_json, header, line, surroundings
from aclnn_kvcache.cli.backend import add_backend_arguments, exit_code
from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.session import Session

HELP = "measure launches, oracles and kernels, each against a baseline of the same run"

PARTS = ("launch", "oracle", "kernel", "import", "growth")
ALONE: dict[str, Callable[[int], Iterable[Figure]]] = {"oracle": oracle_figures, "import": import_figures}
"""Those that need no library."""
ON_DEVICE: dict[str, Callable[[Session, int], Iterable[Figure]]] = {
    "launch": launch_figures,
    "kernel": kernel_figures,
    "growth": lambda session, repeats: [growth(session, min(MANY, repeats * 5000))],
}
FEWEST, MOST = 2, 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend_arguments(parser)
    parser.add_argument("--device", type=int, default=0, metavar="N", help="index among the visible devices")
    runs = f"runs of each measurement, {FEWEST} to {MOST} (20)"
    parser.add_argument("--repeats", type=_repeats, default=20, metavar="N", help=runs)
    only = f"of {', '.join(PARTS)}; {' and '.join(ALONE)} need no library"
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=only)
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def _repeats(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if not FEWEST <= value <= MOST:
        expected = f"expected the runs of each measurement, a whole number from {FEWEST} to {MOST}"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}")
    return value


def run(options: argparse.Namespace) -> int:
    screen = sys.stderr if options.json else sys.stdout
    report = Report({}, [])
    try:
        with ExitStack() as stack:
            session, parts, chosen = None, dict(ALONE), options.only or PARTS
            if not set(chosen) <= set(ALONE):
                place = {"library_dir": options.library_dir, "qkv_abi": options.qkv_abi}
                # Recording and waiting would be measured, and nothing else.
                opened = Session(options.backend, options.device, **place, record=False, blocking=False)
                session = stack.enter_context(opened)
                parts |= {name: partial(measure, session) for name, measure in ON_DEVICE.items()}
            report = report._replace(surroundings=surroundings(session))
            print(header(report.surroundings), file=screen, flush=True)
            figures: list[Figure] = []
            for part in chosen:
                for item in parts[part](options.repeats):
                    figures.append(item)
                    print(line(item), file=screen, flush=True)
            report = report._replace(figures=figures)
    except KvCacheError as error:
        print(error, file=sys.stderr)
        report = report._replace(exit_code=exit_code(error), error=str(error))
    if options.json:
        print(as_json(report))
    return report.exit_code
