# SPDX-License-Identifier: Apache-2.0
"""Revisions B and C of the fused operator: the files of ``revisions/``, each in a process with their libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from aclnn_kvcache.native.library import load

REVISIONS = Path(__file__).parent / "revisions"
FILES = {"b": ("phase1", "mrope", "checks"), "c": ("phase1", "mrope", "mx", "checks")}


@pytest.mark.parametrize(("revision", "name"), [(r, name) for r, names in FILES.items() for name in names])
def test_revision(revision: str, name: str) -> None:
    folder = Path(load("simulator").paths[0]).parent / f"rev_{revision}"
    options = ["-q", "-x", "-p", "no:cacheprovider", "--capture=sys"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(REVISIONS / f"{name}.py")],
        env={**os.environ, "ACLNN_KVCACHE_LIB_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_runs() -> None:
    files = {path.stem for path in REVISIONS.glob("*.py")} - {"conftest"}
    assert files == {name for names in FILES.values() for name in names}
