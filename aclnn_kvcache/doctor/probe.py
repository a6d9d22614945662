# SPDX-License-Identifier: Apache-2.0
"""What only the libraries themselves can tell. Runs in a process of its own, which a driver may hang or crash.

Prints one line of JSON when a stage is done, so that what was found before a crash is not lost.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.native.installation import mapped_roots
from aclnn_kvcache.native.library import Library, load
from aclnn_kvcache.native.operators import OperatorFunction, operator_functions
from aclnn_kvcache.native.version import cann_version
from aclnn_kvcache.runtime.device import device_count
from aclnn_kvcache.runtime.process import process_of
from aclnn_kvcache.runtime.release import release_by_functions
from aclnn_kvcache.session import Session
from aclnn_kvcache.smoke.cases import APIS
from aclnn_kvcache.smoke.runner import Result, run_cases

SMALL_CASES = ("decode", "qkv-decode")
"""One call of each operator, in the order of ``APIS``."""

Facts = dict[str, Any]


def main(request: Facts) -> None:
    """``request``: backend, library_dir, qkv_abi, device, the smoke test's command, the seconds that calls may take."""
    # What the libraries print must not come between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def told(stage: str, examine: Callable[[], Facts]) -> bool:
        try:
            facts = {"error": "", **examine()}
        except KvCacheError as error:
            facts = {"error": str(error), "kind": type(error).__name__}
        print(json.dumps({"stage": stage, **facts}), file=answers, flush=True)
        return not facts["error"]

    libraries: list[Library] = []
    functions: list[OperatorFunction] = []
    if not told("libraries", lambda: _libraries(request, libraries)):
        return
    told("operators", lambda: _operators(libraries[0], functions))
    if told("devices", lambda: _devices(libraries[0])):
        told("calls", lambda: _calls(request, functions))
        told("end", lambda: _end(libraries[0]))


def _libraries(request: Facts, loaded: list[Library]) -> Facts:
    library = load(request["backend"], request["library_dir"], request["qkv_abi"])
    loaded.append(library)
    since, before = release_by_functions(library)
    return {"backend": library.backend, "version": cann_version(library), "since": since, "before": before}


def _operators(library: Library, functions: list[OperatorFunction]) -> Facts:
    functions += operator_functions(library)
    attempts = [attempt._asdict() for attempt in library.attempts]
    roots = [root._asdict() for root in mapped_roots()]
    found = [function._asdict() for function in functions]
    return {"functions": found, "paths": library.paths, "attempts": attempts, "roots": roots}


def _devices(library: Library) -> Facts:
    process_of(library).acquire()  # until the end: not every release takes a second initialisation well
    return {"count": device_count(library), "soc_name": (library.aclrtGetSocName() or b"unknown").decode()}


def _calls(request: Facts, functions: list[OperatorFunction]) -> Facts:
    """One small call of each operator whose functions are there, with every byte compared."""
    deadline = time.monotonic() + request["seconds"]
    broken = {function.name.removesuffix("GetWorkspaceSize") for function in functions if function.error}
    results: list[Result] = []
    place = (request["backend"], request["device"])
    # Settings for the user's own calls are looked at elsewhere.
    with Session(*place, library_dir=request["library_dir"], blocking=False, record=False) as session:
        for name, api in zip(SMALL_CASES, APIS, strict=True):
            if api not in broken:
                results += run_cases(session, [name], 0, lambda: deadline - time.monotonic(), request["smoke"])
    return {"results": [result._asdict() for result in results]}


def _end(library: Library) -> Facts:
    process_of(library).release()
    return {}
