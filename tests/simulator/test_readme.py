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
SCENES = next(block for block in BLOCKS if 'qkv_abi="C"' in block and "import" in block)


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    command = sys.executable, *command
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_the_blocks_are_one_program(tmp_path: Path) -> None:
    program = "".join(block for block in BLOCKS if block not in (FIXTURE, SCENES))
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


SEEN = """
oracle = kv.oracle.qkv_rms_norm_rope_cache_with_k_scale
caches = np.zeros_like(k_int8), np.zeros_like(v_cache), np.zeros_like(k_float32)
expected = oracle(qkv, gamma, gamma, cos_sin, slots, *caches, None, None, rotation, v_scale, q_quant_mode="NoQuant",
                  **common)
assert mrope_q.dtype == ml_dtypes.bfloat16 and kv.compare(mrope_q, expected.q_out, "bf16").ok
assert kv.compare(k_int8, expected.k_cache, "int8").ok and k_int8.any()
caches = np.zeros_like(k_fp8), np.zeros_like(v_cache), np.zeros_like(k_e8m0)
expected = oracle(qkv, gamma, gamma, cos_sin, slots, *caches, None, None, None, v_scale, q_quant_mode="Mx",
                  k_quant_mode="Mx", **common)
assert kv.compare(mx_q, expected.q_out, "mx", scale=(mx_q_scale, expected.q_scale)).ok
assert kv.compare(k_fp8, expected.k_cache, "mx", scale=(k_e8m0, expected.k_scale_cache)).ok
print("seen")
"""


def test_the_later_scenes_run_in_a_process_of_their_own(tmp_path: Path) -> None:
    result = run(tmp_path, "-c", SCENES + SEEN)
    assert (result.returncode, result.stdout, result.stderr) == (0, "seen\n", "")


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
    assert "ERROR test_mine.py::test_bad" in result.stdout
