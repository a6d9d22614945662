# SPDX-License-Identifier: Apache-2.0
"""Starts the probe, waits for it no longer than allowed, and collects what it found until then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, NamedTuple

STAGES = {
    "libraries": "opening the libraries",
    "operators": "looking for the operators",
    "devices": "asking for the devices",
    "calls": "opening the device and calling the operators",
    "end": "giving the device back",
}
"""What the probe does, in order."""

PROGRAM = "import json, sys; sys.path[:] = {path!r}; from aclnn_kvcache.doctor.probe import main; main({request!r})"

PATIENCE = 5.0
"""Seconds that a process that was killed has to end; one that waits inside a driver may never do."""

SAID = 2000
"""Characters kept of what a process said that did not end well."""


class NativeFacts(NamedTuple):
    stages: Mapping[str, Mapping[str, Any]]
    """What each stage that was done found; "error" in it is empty if it went well."""
    stopped: str = ""
    """How the process ended if it did not end by itself, such as "was ended by signal 11 (...)"; else empty."""
    said: str = ""
    """The end of what it wrote on standard error then."""

    @property
    def stopped_while(self) -> str:
        """What it was doing."""
        return next((doing for stage, doing in STAGES.items() if stage not in self.stages), "ending")


def gather(request: Mapping[str, Any], environ: Mapping[str, str], timeout: float) -> NativeFacts:
    """Runs the probe with this environment. Never raises for what happens in it, and never waits longer."""
    program = PROGRAM.format(path=sys.path, request={**request, "seconds": timeout})
    # Files, not pipes: a process that cannot be killed keeps its end of a pipe open.
    try:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stopped = _run(program, environ, timeout, out, err)
            said = _text(err)[-SAID:].strip() if stopped else ""
            return NativeFacts(_stages(_text(out)), stopped, said)
    except OSError as error:
        return NativeFacts({}, f"could not be started: {error}")


def _run(program: str, environ: Mapping[str, str], timeout: float, out: IO[bytes], err: IO[bytes]) -> str:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired:
        return f"did not end within {timeout:g} s"
    finally:
        if process.returncode is None:
            _kill(process)
    if code < 0:
        return f"was ended by signal {-code} ({signal.strsignal(-code)})"
    return f"ended with exit code {code}" if code else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def _stages(text: str) -> dict[str, Mapping[str, Any]]:
    answers = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return {facts.pop("stage"): facts for facts in answers}
