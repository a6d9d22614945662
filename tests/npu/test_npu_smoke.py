# SPDX-License-Identifier: Apache-2.0
"""The smoke cases on a real device, each in a process of its own: the simulator may already be loaded in this one."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from aclnn_kvcache.smoke.cases import names_of

pytestmark = pytest.mark.npu


def smoke(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aclnn_kvcache", "smoke", "--backend", "cann", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


def test_every_case_on_the_device() -> None:
    run = smoke()
    assert run.returncode == 0, run.stdout + run.stderr
    document = json.loads(run.stdout)
    assert document["backend"] == "cann"
    assert [case["name"] for case in document["cases"]] == names_of(document["revision"])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_data(seed: int) -> None:
    run = smoke("--seed", str(seed))
    assert run.returncode == 0, run.stdout + run.stderr
