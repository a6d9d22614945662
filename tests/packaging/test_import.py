# SPDX-License-Identifier: Apache-2.0
"""What importing the package costs and does: nothing that a program could notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODULES = """
import ml_dtypes, numpy, sys
before = set(sys.modules)
import aclnn_kvcache
print(" ".join(sorted(set(sys.modules) - before)))
"""

WHEN_NEEDED = {
    *(f"aclnn_kvcache.{unit}" for unit in ("bench", "bundle", "cli", "doctor", "replay", "smoke")),
    *(f"aclnn_kvcache.explain.{name}" for name in ("asking", "context", "phrases", "plog", "text", "verdict")),
    *("aclnn_kvcache.compare.report", "aclnn_kvcache.native.library", "aclnn_kvcache.oracle", "pathlib"),
    *("argparse", "asyncio", "difflib", "importlib.metadata", "json", "logging", "subprocess", "tempfile"),
}
"""What most programs never need, and what would make importing slow. `aclnn-kvcache bench` measures how slow it is."""

WATCHED = """
import json, os, sys, threading
import ml_dtypes, numpy

seen = {"environment": [], "written": [], "opened": []}

class Recorder(type(os.environ)):
    def __getitem__(self, key):
        seen["environment"].append(key)
        return super().__getitem__(key)
    def __contains__(self, key):
        seen["environment"].append(key)
        return super().__contains__(key)
    def __iter__(self):
        seen["environment"].append("all")
        return super().__iter__()

def watch(event, arguments):
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        seen["written"].append(str(arguments[0]))
    if event in ("os.mkdir", "os.rename", "os.remove", "os.link", "os.symlink"):
        seen["written"].append(event)
    if event == "ctypes.dlopen" and arguments[0]:
        seen["opened"].append(str(arguments[0]))

def tasks():
    return len(os.listdir("/proc/self/task")), threading.active_count()

before = tasks()
os.environ.__class__ = Recorder
sys.addaudithook(watch)
import aclnn_kvcache
os.environ.__class__ = Recorder.__base__
seen["threads"] = [before, tasks()]
seen["mapped"] = sorted({line.split()[-1] for line in open("/proc/self/maps") if ".so" in line})
seen["torch"] = "torch" in sys.modules
print(json.dumps(seen))
"""


def run(script: str, **changes: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", script]
    # Started in the root folder, so that the checkout is not on sys.path.
    return subprocess.run(
        command, env=environment | changes, cwd="/", capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def seen() -> Any:
    return json.loads(run(WATCHED, PYTHONDONTWRITEBYTECODE="1"))


def test_no_library_is_opened(seen: Any) -> None:
    names = [Path(path).name for path in seen["mapped"] + seen["opened"]]
    ours = ("libascendcl", "libacl_rt", "libnnopbase", "libopapi", "libcust_opapi", "libaclsim")
    assert [name for name in names if name.startswith(ours)] == []
    assert seen["opened"] == []


def test_no_environment_is_read(seen: Any) -> None:
    assert seen["environment"] == []


def test_no_file_is_written(seen: Any) -> None:
    assert seen["written"] == []


def test_no_thread_is_started(seen: Any) -> None:
    before, after = seen["threads"]
    assert before == after


def test_torch_is_not_imported(seen: Any) -> None:
    assert not seen["torch"]


def test_what_most_programs_never_need_is_not_imported(tmp_path: Path) -> None:
    imported = set(run(MODULES, PYTHONPYCACHEPREFIX=str(tmp_path)).split())
    assert "aclnn_kvcache.session" in imported
    assert imported & WHEN_NEEDED == set()
