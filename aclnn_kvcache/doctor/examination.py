# SPDX-License-Identifier: Apache-2.0
"""One examination: what is examined, and the checks in the order of the report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from aclnn_kvcache.doctor import devices, installation, machine, operators, surroundings
from aclnn_kvcache.doctor.native_facts import NativeFacts, gather
from aclnn_kvcache.doctor.report import PROBLEM, Line, Report
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.native.discovery import BACKENDS

Check = Callable[[Subject], Iterator[Line]]

CHECKS: Mapping[str, Check] = {
    "backend": installation.check_backend,
    "process": installation.check_process,
    "python": machine.check_python,
    "platform": machine.check_platform,
    "simulator": machine.check_simulator,
    "search": installation.check_search,
    "libraries": installation.check_libraries,
    "roots": installation.check_roots,
    "versions": installation.check_versions,
    "driver": devices.check_driver,
    "nodes": devices.check_nodes,
    "visible": devices.check_visible,
    "devices": devices.check_devices,
    "operators": operators.check_operators,
    "kernels": operators.check_kernels,
    "calls": operators.check_calls,
    "logs": surroundings.check_logs,
    "environment": surroundings.check_environment,
}
"""In the order of the report. The first problem is what its summary names, so causes come before what follows."""


def examine(
    backend: str = "auto",
    library_dir: str | os.PathLike[str] | None = None,
    *,
    device: int = 0,
    qkv_abi: str | None = None,
    environ: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    root: Path = Path("/"),
) -> Report:
    """Examines whether a backend can run the operators here, and what to do if it cannot.

    The arguments are those of ``Session``. Libraries and device are opened in a process of its own, with ``environ``
    (this process's by default), which is given ``timeout`` seconds; one small call of each operator is made there.
    ``root`` stands for the root of the file system where devices and driver are looked for. Needs nothing installed;
    raises ArgumentError for arguments that cannot be meant, and nothing else.
    """
    if backend not in BACKENDS:
        raise ArgumentError("backend", " or ".join(map(repr, BACKENDS)), repr(backend))
    if isinstance(device, bool) or not isinstance(device, int) or device < 0:
        raise ArgumentError("device", "an index among the visible devices", repr(device))
    if library_dir is not None and not isinstance(library_dir, (str, os.PathLike)):
        raise ArgumentError("library_dir", "the path of a folder", repr(library_dir))
    folder = None if library_dir is None else os.fspath(library_dir)
    environ = os.environ if environ is None else environ
    subject = Subject(backend, folder, device, dict(environ), root, NativeFacts({}))
    request = {"backend": backend, "library_dir": folder, "qkv_abi": qkv_abi, "device": device, "smoke": subject.smoke}
    subject = subject._replace(native=gather(request, environ, timeout))
    lines = tuple(line for name, check in CHECKS.items() for line in _checked(name, check, subject))
    return Report(subject.loaded_backend, lines)


def _checked(name: str, check: Check, subject: Subject) -> list[Line]:
    lines: list[Line] = []
    try:
        lines.extend(check(subject))
    except Exception as error:  # a report that lacks one answer is worth more than none
        text = f"the check {name!r} failed by itself: {type(error).__name__}: {error}"
        lines.append(Line("doctor", PROBLEM, text, "report this as a defect of aclnn_kvcache, with this whole report"))
    return lines
