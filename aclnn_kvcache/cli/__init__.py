# SPDX-License-Identifier: Apache-2.0
"""The command ``aclnn-kvcache``; one module per subcommand."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from aclnn_kvcache import __version__
from aclnn_kvcache.cli import abi, bench, check, doctor, explain, replay, repro, smoke
from aclnn_kvcache.cli.backend import RUNTIME_FAILURE

COMMANDS = {
    "smoke": smoke,
    "doctor": doctor,
    "explain": explain,
    "check": check,
    "replay": replay,
    "repro": repro,
    "bench": bench,
    "abi": abi,
}

EXIT_CODES = (
    "exit codes: 0 good; 1 results differ; 2 wrong usage; 3 no such backend, device or log; 4 device or runtime "
    "failure; 130 interrupted; 141 the reader of the output went away"
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
        code = int(COMMANDS[options.command].run(options))
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python fails again when it flushes
        return 128 + signal.SIGPIPE
    except OSError as error:
        print(f"the report cannot be written: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RUNTIME_FAILURE
