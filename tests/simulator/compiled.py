# SPDX-License-Identifier: Apache-2.0
"""C programs of the tests, made of the simulator's own sources."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).parents[2] / "aclnn_kvcache" / "simulator"
HERE = Path(__file__).parent
# Neither compiler nor program is to run under the sanitizer that the tests may be running under.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
OPTIONS = ["-std=c11", "-O3", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(SIMULATOR)]


def compile_c(*arguments: str | Path) -> None:
    """Runs the C compiler; the test is skipped where there is none."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, *OPTIONS, *map(str, arguments)], check=True, env=ENVIRONMENT, timeout=120)


def run(program: Path, data: bytes = b"", arguments: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [str(program), *arguments], input=data, capture_output=True, check=False, env=ENVIRONMENT, timeout=300
    )
