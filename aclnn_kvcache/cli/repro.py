# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache repro``: a stand-alone program that makes a recorded call, for a report to the vendor."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from aclnn_kvcache.bundle.reading import Bundle, read_bundle
from aclnn_kvcache.cli.backend import exit_code
from aclnn_kvcache.errors import ArgumentError, KvCacheError
from aclnn_kvcache.replay.repro import LANGUAGES, program

HELP = "write a stand-alone program that makes a recorded call; it needs CANN, but not this package"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "bundle", metavar="BUNDLE", help="the folder of a recorded call, or its manifest; the program reads it too"
    )
    parser.add_argument("--lang", choices=list(LANGUAGES), required=True, help="C11, or Python without any package")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there, not to standard output")


def run(options: argparse.Namespace) -> int:
    try:
        bundle = read_bundle(options.bundle)
        text = program(bundle, options.lang)
        _require_elsewhere(options.output, bundle)
    except KvCacheError as error:
        print(error, file=sys.stderr)
        return exit_code(error)
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


def _require_elsewhere(output: Path | None, bundle: Bundle) -> None:
    """Raises ArgumentError where the program would take the place of a file that it reads."""
    if output is None or not output.exists():
        return
    for file in bundle.files:
        if file.exists() and file.samefile(output):
            raise ArgumentError("--output", "a file of its own", f"{output}, which is part of the bundle")
