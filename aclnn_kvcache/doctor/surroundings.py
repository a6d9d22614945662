# SPDX-License-Identifier: Apache-2.0
"""Checks of what surrounds a call: CANN's logs, and the environment variables that matter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from aclnn_kvcache.bundle.recorder import RECORD
from aclnn_kvcache.doctor.report import OK, PROBLEM, WARNING, Line
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.doctor.variables import OURS, VARIABLES, Variable
from aclnn_kvcache.explain.plog import log_folder
from aclnn_kvcache.native.discovery import OVERRIDE

LEVELS = {"0": "DEBUG", "1": "INFO", "2": "WARNING", "3": "ERROR", "4": "none"}
LEVEL = "ASCEND_GLOBAL_LOG_LEVEL"


def check_logs(subject: Subject) -> Iterator[Line]:
    """Where CANN's logs go, the newest, and what goes there."""
    environ = subject.environ
    if subject.simulated:
        yield Line("logs", OK, "the simulator writes none")
        return
    folder = log_folder(environ)
    where = f"{folder.path} (by {folder.variable})" if folder.path else "a folder that no variable names"
    if switch := folder.to_stdout:
        yield Line("logs", WARNING, f"{switch}=1: nothing is written to {where}", f"unset {switch}")
    elif not folder.path:
        text = "where CANN's logs go is not known: HOME is not set"
        yield Line("logs", WARNING, text, "export ASCEND_PROCESS_LOG_PATH=<a folder of yours>")
    elif not folder.exists:
        yield Line("logs", OK, f"{where}: not there before the first message")
    elif not os.access(folder.path, os.W_OK | os.X_OK):
        text = f"{where}: this user may not write there, so that CANN's messages are lost"
        yield Line("logs", WARNING, text, "export ASCEND_PROCESS_LOG_PATH=<a folder of yours>")
    else:
        yield Line("logs", OK, f"{where}: {_newest(Path(folder.path))}")
    level = environ.get(LEVEL, "3")
    if level in LEVELS:
        yield Line("logs", OK, f"level {LEVELS[level]} ({LEVEL}={level}{'' if LEVEL in environ else ', the default'})")
    else:
        yield Line("logs", WARNING, f"{LEVEL}={level} is no level: 0 (DEBUG) to 4 (none)", f"export {LEVEL}=1")


def _newest(folder: Path) -> str:
    """The newest log of a process on the host, with its size."""
    found: list[tuple[float, int, str]] = []
    for path in folder.glob("*/plog/plog-*.log"):
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((status.st_mtime, status.st_size, str(path)))
    if not found:
        return "no plog yet"
    _, size, newest = max(found)
    return f"newest of {len(found)}: {newest}, {size} bytes"


def check_environment(subject: Subject) -> Iterator[Line]:
    """The variables that matter and are set, each with what it does; those that do nothing are said so."""
    for name, variable in VARIABLES.items():
        if value := subject.environ.get(name, ""):
            yield _variable(subject, name, value, variable)
    for name in sorted(subject.environ):
        if name.startswith(OURS) and name not in VARIABLES:
            text = f"{name}={subject.environ[name]}: not a variable of this package, it does nothing"
            yield Line("environment", WARNING, text, f"unset {name}")


def _variable(subject: Subject, name: str, value: str, variable: Variable) -> Line:
    text = f"{name}={value}: {variable.does}"
    if variable.ignored:
        return Line("environment", WARNING, text, f"unset {name}, or keep it for others")
    if name == OVERRIDE and subject.library_dir is not None:
        return Line("environment", WARNING, f"{text}; not used: a folder is given", f"unset {name}")
    if variable.allowed and value not in variable.allowed:
        return Line("environment", PROBLEM, f"{text}; it must be {' or '.join(variable.allowed)}", f"unset {name}")
    if name == RECORD and (fault := _cannot_hold(value)):
        return Line("environment", PROBLEM, f"{text}; {fault}", f"unset {name}")
    paths = list(filter(None, value.split(":")))
    if variable.paths and (missing := [path for path in paths if not os.path.exists(path)]):
        return Line("environment", WARNING, f"{text}; not there: {', '.join(missing)}", f"correct {name}")
    if name == "LD_LIBRARY_PATH" and any("devlib" in Path(path).parts for path in paths):
        text += "; devlib holds stubs to link with, whose calls answer 100039"
        return Line("environment", WARNING, text, "source set_env.sh again, on a host with the driver")
    return Line("environment", OK, text)


def _cannot_hold(folder: str) -> str:
    """Why a folder cannot be used or made; empty if it can."""
    path = Path(folder).absolute()
    there = next(place for place in (path, *path.parents) if os.path.lexists(place))
    if not os.path.isdir(there):
        return f"{there} is no folder"
    return "" if os.access(there, os.W_OK | os.X_OK) else f"this user may not write to {there}"
