# SPDX-License-Identifier: Apache-2.0
"""The command ``aclnn-kvcache``; one module per subcommand."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aclnn_kvcache import __version__
from aclnn_kvcache.cli import abi, smoke

COMMANDS = {"smoke": smoke, "abi": abi}

EXIT_CODES = (
    "exit codes: 0 good; 1 results differ; 2 wrong usage; 3 no such backend or device; 4 device or runtime failure"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    parser = argparse.ArgumentParser(prog="aclnn-kvcache", description=__doc__, epilog=EXIT_CODES)
    parser.add_argument("--version", action="version", version=f"aclnn-kvcache {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP, epilog=EXIT_CODES)
        module.add_arguments(command)
    options = parser.parse_args(arguments)
    try:
        return int(COMMANDS[options.command].run(options))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
