# SPDX-License-Identifier: Apache-2.0
"""The revisions of the fused operator whose libraries lie beside those of the session, as the simulator's do.

A process holds one set of libraries, so each runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from aclnn_kvcache.native.discovery import later_revisions
from aclnn_kvcache.session import Session
from aclnn_kvcache.smoke.cases import names_of
from aclnn_kvcache.smoke.qkv_cases import QKV_CASES
from aclnn_kvcache.smoke.report import Report
from aclnn_kvcache.smoke.runner import Result


def cases_beside(session: Session, wanted: Iterable[str]) -> dict[str, list[str]]:
    """By revision those of the wanted cases that call the fused operator; nothing where a revision was stated."""
    if session.library.qkv_abi:
        return {}
    fused = [name for name in wanted if name in QKV_CASES]
    revisions = later_revisions(os.path.dirname(session.libraries[0]))
    found = {revision: [name for name in fused if name in names_of(revision)] for revision in revisions}
    return {revision: names for revision, names in found.items() if names}


def run_beside(revision: str, names: Iterable[str], options: Sequence[str], report: Report, screen: TextIO) -> None:
    """Runs the cases on the revision and adds their results, or the error that there was, to the report.

    ``options``: those of the command, without revision, cases and ``--json``. Its table goes to the screen.
    """
    command = [sys.executable, "-m", "aclnn_kvcache", "smoke", *options, "--qkv-abi", revision, "--json"]
    command += [word for name in names for word in ("--case", name)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=screen, text=True, check=False)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        report.error = report.error or f"the process for revision {revision} ended with {done.returncode}"
        return
    report.results += [Result(**case) for case in document["cases"]]
    report.libraries += tuple(document["libraries"])
    report.error = report.error or document["error"]
