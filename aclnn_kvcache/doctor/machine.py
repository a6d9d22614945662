# SPDX-License-Identifier: Apache-2.0
"""Checks of what lies under everything: Python, the platform, the bundled simulator."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator

import ml_dtypes
import numpy as np

from aclnn_kvcache import __version__
from aclnn_kvcache.doctor.report import OK, PROBLEM, WARNING, Line
from aclnn_kvcache.doctor.subject import Subject
from aclnn_kvcache.native import discovery

ARCHITECTURES = ("x86_64", "aarch64")

GET_A_COMPILER = "install gcc or clang, then reinstall aclnn-kvcache"


def check_python(subject: Subject) -> Iterator[Line]:
    yield Line("python", OK, f"Python {platform.python_version()}, {sys.executable}")
    versions = {"aclnn_kvcache": __version__, "numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__}
    yield Line("python", OK, ", ".join(f"{name} {version}" for name, version in versions.items()))


def check_platform(subject: Subject) -> Iterator[Line]:
    text = f"{platform.system()} {platform.release()}, {platform.machine()}, {' '.join(platform.libc_ver())}"
    if platform.system() == "Linux" and platform.machine() in ARCHITECTURES:
        yield Line("platform", OK, text)
    else:
        yield Line("platform", PROBLEM, f"{text}: not supported", f"use Linux on {' or '.join(ARCHITECTURES)}")


def check_simulator(subject: Subject) -> Iterator[Line]:
    """Whether the bundled simulator is there, whatever is examined."""
    folders = [folder.path for folder in discovery.folders("simulator", None, {})]
    path = next((path for path in folders if os.path.exists(os.path.join(path, discovery.RUNTIME[0]))), "")
    if path:
        yield Line("simulator", OK, f"the bundled simulator is in {path}")
    else:
        text = f"the bundled simulator is not there: no {discovery.RUNTIME[0]} in {' or '.join(folders)}"
        yield Line("simulator", WARNING, text, GET_A_COMPILER)
