# SPDX-License-Identifier: Apache-2.0
"""Checks of the libraries: what was searched, what was opened, and whether its pieces belong together."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from aclnn_kvcache.doctor.devices import ASK_THE_DRIVER
from aclnn_kvcache.doctor.machine import GET_A_COMPILER
from aclnn_kvcache.doctor.report import OK, PROBLEM, WARNING, Line
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.native.discovery import BUNDLED, OVERRIDE
from aclnn_kvcache.native.installation import mapped_roots
from aclnn_kvcache.native.packages import TOGETHER, mismatches, packages

PACKAGES = {
    "libascendcl": "runtime",
    "libacl_rt": "runtime",
    "libnnopbase": "opbase",
    "libopapi_transformer": "ops-transformer",
}
"""The package that a library comes with."""

TELLING = ("the loader says", "this is ")
"""What the lines of a failed search hold that tell more than that a file is not there."""

ROOT_VARIABLES = {"ASCEND_HOME_PATH": "", "ASCEND_TOOLKIT_HOME": "", "ASCEND_OPP_PATH": "opp"}
"""Variables that name the root, or the folder below it."""


def check_backend(subject: Subject) -> Iterator[Line]:
    if facts := subject.stage("libraries"):
        if subject.simulated:
            yield Line("backend", OK, f"simulator: it stands for CANN {facts['version']}, and no NPU is involved")
        else:
            yield Line("backend", OK, f"cann {facts['version']}; by its functions {_release(subject)}")
    elif error := subject.error("libraries"):
        first, *others = error.splitlines()
        text = "\n".join([first, *(line.strip() for line in others if any(word in line for word in TELLING))])
        if subject.native.stages["libraries"]["kind"] in ("LibraryNotFoundError", "LibraryConflictError"):
            yield Line("backend", PROBLEM, text, _cure(subject, text))
        else:
            yield Line("environment", PROBLEM, text, "correct or drop the option or variable that the text names")


def _release(subject: Subject) -> str:
    facts = subject.stage("libraries")
    bounds = [f"{facts['since']} or later"] if facts["since"] else []
    return ", ".join([*bounds, *([f"before {facts['before']}"] if facts["before"] else [])])


def _cure(subject: Subject, text: str) -> str:
    root = subject.cann_root
    if "the loader says" in text and root and os.path.exists(_set_env(root)):
        return _source(root)  # a library that it depends on was not found
    if subject.folders[0].exclusive:
        bundled = subject.folders[0].reason == BUNDLED
        return GET_A_COMPILER if bundled else f"name the folder of a whole set of libraries, or none: unset {OVERRIDE}"
    if root:
        return _source(root)
    return "install CANN for Ascend 950, or use the simulator: aclnn-kvcache doctor --backend simulator"


def _set_env(root: str) -> str:
    """The script that sets the environment; releases up to 8.3 have it one folder higher."""
    scripts = [f"{root}/set_env.sh", f"{os.path.dirname(root)}/set_env.sh"]
    return next(filter(os.path.exists, scripts), scripts[0])


def _source(root: str) -> str:
    return f"source {shlex.quote(_set_env(root))}"


def check_process(subject: Subject) -> Iterator[Line]:
    """How the process that opened libraries and device ended."""
    native = subject.native
    if not native.stopped:
        yield Line("process", OK, "the process that opened libraries and device ended by itself")
        return
    text = f"the process that opens libraries and device {native.stopped} while {native.stopped_while}"
    text += f"\n{native.said}" if native.said else ""
    cure = ASK_THE_DRIVER
    if subject.simulated or native.stopped_while.startswith("opening the libraries"):
        cure = f"run '{subject.smoke}', with a core dump allowed (ulimit -c unlimited)"
    if native.stopped.startswith("could not be started"):
        cure = "free memory, processes or the folder of temporary files (TMPDIR), as the text says"
    yield Line("process", PROBLEM, text, cure)


def check_search(subject: Subject) -> Iterator[Line]:
    """Every folder that was looked into, in order."""
    for folder in subject.folders:
        where = f"{folder.path} ({folder.reason})" if folder.path else folder.reason
        held = subject.held(folder)
        if folder.skipped:
            yield Line("search", WARNING, f"{where}: skipped: {folder.skipped}", "name it by its absolute path")
        elif not folder.path:
            yield Line("search", OK, f"{where}: asked last")
        elif held:
            yield Line("search", OK, f"{where}: holds {', '.join(held)}")
        else:
            there = "none of the libraries" if os.path.isdir(folder.path) else "no such folder"
            yield Line("search", OK, f"{where}: {there}")


def check_libraries(subject: Subject) -> Iterator[Line]:
    facts = subject.stage("operators")
    versions = {package.name: package.version for package in packages(subject.cann_root)} if subject.cann_root else {}
    for path in facts.get("paths", ()):
        package = PACKAGES.get(os.path.basename(path).partition(".")[0], "")
        version = f" ({package} {versions[package]})" if versions.get(package) else ""
        yield Line("libraries", OK, f"{path}{version}")
    for attempt in facts.get("attempts", ()):
        if attempt["result"].startswith("the loader says") and os.path.isabs(attempt["path"]):
            text = f"{attempt['path']} ({attempt['reason']}): {attempt['result']}"
            cure = _source(subject.cann_root) if subject.cann_root else "rebuild or remove that file"
            yield Line("libraries", WARNING, text, cure)


def check_roots(subject: Subject) -> Iterator[Line]:
    """Whether everything comes from one installation: there, in this process, and in the variables."""
    roots = [root["path"] for root in subject.stage("operators").get("roots", ())]
    here = [root.path for root in mapped_roots()]
    for who, found in (("the libraries opened", roots), ("the libraries that this process holds", here)):
        if len(found) > 1:
            cure = f"start a new shell, and there only: {_source(found[0])}"
            yield Line("roots", PROBLEM, f"{who} come from {len(found)} installations: {', '.join(found)}", cure)
    if here and roots and here[0] != roots[0]:
        text = f"this process holds the libraries of {here[0]} and cannot open those of {roots[0]}"
        yield Line("roots", WARNING, text, f"start another process for {roots[0]}")
    if len(roots) == 1:
        yield Line("roots", OK, f"the libraries opened come from one installation: {roots[0]}")
    for variable, inner in ROOT_VARIABLES.items():
        value, root = subject.environ.get(variable, ""), subject.cann_root
        if value and root and os.path.realpath(value) != os.path.realpath(os.path.join(root, inner)):
            text = f"{variable}={value} names another installation than {root}, whose libraries are used"
            yield Line("roots", WARNING, text, _source(root))


def check_versions(subject: Subject) -> Iterator[Line]:
    root = subject.cann_root
    if not root:
        return
    found = packages(root)
    for package in found:
        if package.version:
            yield Line("versions", OK, f"{package.name} {package.version} ({package.path})")
        else:
            cure = f"let this user read it: sudo chmod a+r {shlex.quote(package.path)}"
            yield Line("versions", WARNING, f"{package.name}: {package.path}: {package.fault}", cure)
    if not found:
        text = f"no package below {root} states its version"
        yield Line("versions", WARNING, text, f"see that {root} is a whole installation: ls {shlex.quote(root)}")
    texts = mismatches(found)
    for text in texts:
        yield Line("versions", PROBLEM, text, f"install {', '.join(TOGETHER)} of one release into {root}")
    if found and not texts:
        yield Line("versions", OK, "the packages belong together, as far as they state versions")
