# SPDX-License-Identifier: Apache-2.0
"""The Python of the README runs, in its order, and does what is said there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
FIXTURE = next(block for block in BLOCKS if "@pytest.fixture" in block)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    command = sys.executable, *command
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_the_blocks_are_one_program(tmp_path: Path) -> None:
    program = "".join(block for block in BLOCKS if block is not FIXTURE)
    check = "assert q_out.shape == (16, 5, 128) and q_scale.shape == (16, 5) and k_cache.view('u1').any()\n"
    result = run(tmp_path, "-c", program + check)
    assert (result.returncode, result.stderr) == (0, "")
    compared, first, second, plan = result.stdout.splitlines()
    assert compared == (
        "exact: ok; rows of float8_e4m3fn [32, 8, 16, 128]: 24 right, 0 missing, 0 wrong, 0 stray, 4072 untouched"
    )
    assert first.startswith("161001 required.key_scale ")
    assert second.startswith("0 tokens.value ")
    assert plan.startswith("two-phase CANN refuses ")


USES = """
import numpy as np

def test_good(session):
    assert session.array(np.ones(3)).numpy().tolist() == [1, 1, 1]

def test_bad(session):
    session.empty(3, np.float32).numpy()
"""


def test_the_fixture_fails_a_test_that_is_reported(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(FIXTURE, "utf-8")
    (tmp_path / "test_mine.py").write_text(USES, "utf-8")
    result = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed, 1 error" in result.stdout
    assert "AssertionError: init: uninitialised_read in aclrtMemcpy: " in result.stdout
    assert "test_bad" in result.stdout.splitlines()[-2]
