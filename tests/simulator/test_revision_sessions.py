# SPDX-License-Identifier: Apache-2.0
"""Sessions on each revision of the fused operator: the files of ``revision_sessions/``, each in a process of its own,
since a process holds one set of libraries.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = {
    "A": ("plans", "refusals"),
    "B": ("by_hand", "bundles", "plans", "random_calls", "refusals"),
    "C": ("by_hand", "bundles", "plans", "random_calls", "refusals"),
}


def run(revision: str, *words: str) -> str:
    """Standard output of Python with these words in a process that states the revision."""
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "ACLNN_KVCACHE_QKV_ABI": revision, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("revision", "name"), [(r, name) for r, names in FILES.items() for name in names])
def test_sessions(revision: str, name: str) -> None:
    options = ["-q", "-x", "-p", "no:cacheprovider", "--capture=sys"]
    output = run(revision, "-m", "pytest", *options, str(HERE / "revision_sessions" / f"{name}.py"))
    assert " passed" in output


def test_every_file_runs() -> None:
    files = {path.stem for path in (HERE / "revision_sessions").glob("*.py")}
    assert files == {name for names in FILES.values() for name in names}


DIGESTS = """
import hashlib
import numpy as np
import scene_calls as scenes
import aclnn_kvcache as kv
with kv.Session("simulator") as session:
    assert session.qkv_abi == scenes.REVISION
    for seed in range(100):
        call = scenes.random_call("RoPE", np.random.default_rng(seed))
        results = scenes.run(session, call, on_device=seed % 2 == 0)
        print(hashlib.sha256(b"".join(results[name].tobytes() for name in sorted(results))).hexdigest())
"""


def test_rope_gives_the_same_bytes_on_every_revision() -> None:
    digests = [run(revision, "-c", DIGESTS).split() for revision in FILES]
    assert len(set(digests[0])) == 100
    assert digests[0] == digests[1] == digests[2]
