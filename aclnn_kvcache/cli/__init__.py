# SPDX-License-Identifier: Apache-2.0
"""The command ``aclnn-kvcache``; one module per subcommand."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Sequence

from aclnn_kvcache import __version__
from aclnn_kvcache.cli import abi, bench, check, doctor, explain, replay, repro, smoke
from aclnn_kvcache.cli.backend import RUNTIME_FAILURE, WRONG_USAGE

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

ABOUT = "Runs, checks and debugs calls of the aclnn KV-cache operators of CANN."

EXIT_CODES = (
    "exit codes: 0 good; 1 results differ, a call is not legal (check), nothing is known (explain); 2 wrong usage; "
    "3 no such backend, device or log; 4 device or runtime failure; 130 interrupted; 141 the reader of the output went "
    "away"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - or print takes standard output instead
    if sys.stdout is None:  # and the next file that is opened would become it
        print("standard output is closed, so that there is no place for a report", file=sys.stderr)
        return RUNTIME_FAILURE
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what the terminal cannot show must not end the report
    parser = argparse.ArgumentParser(prog="aclnn-kvcache", description=ABOUT, epilog=EXIT_CODES)
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
        if error.filename is not None:  # a file that was named, and not what is printed
            print(f"{error.filename}: {error.strerror}", file=sys.stderr)
            return WRONG_USAGE
        print(f"the report cannot be written: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return RUNTIME_FAILURE
