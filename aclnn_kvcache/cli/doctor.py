# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache doctor``: whether this machine can run the operators, and what to do if it cannot."""

from __future__ import annotations

import argparse

from aclnn_kvcache.cli.backend import add_backend_arguments
from aclnn_kvcache.cli.numbers import INDEX, SECONDS
from aclnn_kvcache.doctor import examine

HELP = (
    "examine libraries, versions, driver, devices, operators and environment, each line with its cure; "
    "exit code 0: can run, 3: no such backend or device, 4: another problem"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_backend_arguments(parser)
    parser.add_argument("--device", type=INDEX, default=0, metavar="N", help="index among the visible devices")
    parser.add_argument(
        "--timeout", type=SECONDS, default=60.0, metavar="SECONDS", help="limit for libraries and device to answer (60)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document on standard output")


def run(options: argparse.Namespace) -> int:
    report = examine(
        options.backend,
        options.library_dir,
        device=options.device,
        qkv_abi=options.qkv_abi,
        timeout=options.timeout,
    )
    print(report.as_json() if options.json else report)
    return report.exit_code
