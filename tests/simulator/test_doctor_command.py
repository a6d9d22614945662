# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache doctor`` on the simulator, and on sets of libraries that lack something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import Sim
from revision_fakes import QKV, SCATTER, A, copy_libraries, declarations, environment, install, recorded, simulated

from aclnn_kvcache.doctor import examine
from aclnn_kvcache.native.library import load
from aclnn_kvcache.runtime.release import release_by_functions

Lines = dict[str, list[tuple[str, str]]]


def doctor(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aclnn_kvcache", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=env)


def document(code: int, *words: str, env: Mapping[str, str] | None = None) -> tuple[dict[str, Any], Lines]:
    """The JSON document, and its lines by topic."""
    done = doctor("--json", *words, env=env)
    assert (done.returncode, done.stderr) == (code, ""), done.stdout + done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    assert (read["schema"], read["command"], read["exit_code"]) == (1, "doctor", code)
    lines: Lines = {}
    for line in read["lines"]:
        assert list(line) == ["topic", "verdict", "text", "cure"]
        assert bool(line["cure"]) == (line["verdict"] != "ok"), line
        lines.setdefault(line["topic"], []).append((line["verdict"], line["text"]))
    return read, lines


def problems(lines: Lines) -> list[str]:
    return [topic for topic, found in lines.items() if any(verdict == "problem" for verdict, _ in found)]


def test_the_simulator_is_ready() -> None:
    read, lines = document(0, "--backend", "simulator")
    folder = simulated()
    assert read["backend"] == "simulator"
    assert read["summary"].startswith("ready: both operators run on backend simulator; warnings: ")
    assert lines["backend"] == [("ok", "simulator: it stands for CANN 9.1.0, and no NPU is involved")]
    libraries = [("ok", str(folder / f"lib{name}.so")) for name in ("ascendcl", "nnopbase", "opapi")]
    assert lines["libraries"] == libraries
    assert lines["roots"] == [("ok", f"the libraries opened come from one installation: {folder}")]
    assert lines["devices"] == [("ok", "2 visible to the libraries, counted from 0; device 0 is used")]
    assert lines["product"] == [("ok", "Ascend950PR_9599")]
    assert [(verdict, text.split(":")[0]) for verdict, text in lines["operators"]] == [
        ("ok", name) for name in (f"{QKV}GetWorkspaceSize", QKV, f"{SCATTER}GetWorkspaceSize", SCATTER)
    ]
    assert all(f": {folder / 'libopapi.so'}\n" in text for _, text in lines["operators"])
    assert lines["kernels"] == [("ok", f"{api}: part of the simulator's library") for api in (QKV, SCATTER)]
    assert lines["calls"] == [
        ("ok", "scatter_pa_kv_cache_with_k_scale: every byte is as it must be"),
        ("ok", "qkv_rms_norm_rope_cache_with_k_scale: every byte is as it must be"),
    ]
    assert lines["process"] == [("ok", "the process that opened libraries and device ended by itself")]


def test_text_begins_with_the_backend_and_ends_with_the_verdict() -> None:
    done = doctor("--backend", "simulator", "--device", "1")
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert first == "backend: simulator (no NPU is involved)"
    assert last.startswith("ready: both operators run on backend simulator; warnings: ")
    assert "2 visible to the libraries, counted from 0; device 1 is used\n" in done.stdout


def test_a_process_that_holds_the_libraries_can_examine_them(sim: Sim) -> None:
    report = examine("simulator")
    assert (report.backend, report.exit_code) == ("simulator", 0)
    assert [line.verdict for line in report.lines if line.topic == "roots"] == ["ok"]


def test_no_such_device() -> None:
    read, lines = document(3, "--backend", "simulator", "--device", "2")
    text = "there is no device 2: 2 are visible to the libraries, counted from 0"
    assert ("problem", text) in lines["devices"]
    assert [verdict for verdict, _ in lines["devices"]] == ["problem"]
    assert "calls" not in lines
    assert read["summary"] == f"not ready: {text}"


def test_settings_that_every_session_refuses(tmp_path: Path) -> None:
    wrong = {"ACLNN_KVCACHE_BLOCKING": "yes", "ACLNN_KVCACHE_RECORD": "/etc/passwd"}
    read, lines = document(4, "--backend", "simulator", env={**os.environ, **wrong})
    assert problems(lines) == ["environment"]
    assert [verdict for verdict, _ in lines["calls"]] == ["ok", "ok"]
    assert read["summary"].startswith("not ready: ACLNN_KVCACHE_BLOCKING=yes: ")
    assert "it must be 0 or 1" in read["summary"]
    cures = [line["cure"] for line in read["lines"] if line["verdict"] == "problem"]
    assert cures == [f"unset {name}" for name in wrong]


def test_the_doctor_records_nothing_of_its_own(tmp_path: Path) -> None:
    document(0, "--backend", "simulator", env={**os.environ, "ACLNN_KVCACHE_RECORD": str(tmp_path / "calls")})
    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    ("profile", "summary", "cures"),
    [
        (
            "garbage=1",
            "An environment variable is wrong, not your arguments: aclInit failed with 500000: ACLSIM_PROFILE is wrong"
            ': "garbage" is no key; expected soc, devices, cann or no_kernels, with = behind it',
            ["unset ASCEND_RT_VISIBLE_DEVICES ACLSIM_PROFILE"],
        ),
        (
            "devices=0",
            "The device could not be opened because there is none, or none that this process may see; arguments play "
            "no part in this",
            ["unset ASCEND_RT_VISIBLE_DEVICES ACLSIM_PROFILE"],
        ),
        (
            "soc=Ascend910B2",
            "this is Ascend910B2, and both operators exist for Ascend950 only",
            ["unset ACLSIM_PROFILE"],
        ),
    ],
)
def test_profiles_are_named_as_the_cause(profile: str, summary: str, cures: list[str]) -> None:
    code = 4 if profile.startswith("soc") else 3
    read, lines = document(code, "--backend", "simulator", env={**os.environ, "ACLSIM_PROFILE": profile})
    assert read["summary"].endswith(summary)
    found = [line["cure"] for line in read["lines"] if line["verdict"] == "problem"]
    assert found[: len(cures)] == cures
    assert "kernels" not in lines


def test_visible_devices() -> None:
    env = {**os.environ, "ASCEND_RT_VISIBLE_DEVICES": "1"}
    _, lines = document(0, "--backend", "simulator", env=env)
    assert lines["visible"] == [("ok", "ASCEND_RT_VISIBLE_DEVICES=1: device 0 is physical device 1")]
    assert lines["devices"] == [("ok", "1 visible to the libraries, counted from 0; device 0 is used")]


def test_visible_devices_with_a_fault() -> None:
    env = {**os.environ, "ASCEND_RT_VISIBLE_DEVICES": "1,0"}
    read, lines = document(3, "--backend", "simulator", env=env)
    assert problems(lines) == ["visible", "devices"]
    assert read["summary"] == ("not ready: ASCEND_RT_VISIBLE_DEVICES=1,0: 0 follows 1: ids must ascend, each once")


def test_cann_is_asked_for_and_this_is_the_simulator() -> None:
    read, lines = document(3, "--backend", "cann", "--library-dir", str(simulated()))
    assert read["backend"] == "none"
    assert "this is the simulator, not CANN" in lines["backend"][0][1]


@pytest.mark.parametrize("absent", ["scatter", "both"])
def test_operators_that_no_library_exports(tmp_path: Path, absent: str) -> None:
    held = {"scatter": lambda: install(tmp_path, A, declarations(QKV, A), scatter=False)}
    folder = held.get(absent, lambda: copy_libraries(tmp_path))()
    read, lines = document(4, "--library-dir", str(folder), env=environment(tmp_path, folder))
    [told] = [text for verdict, text in lines["operators"] if verdict == "problem"]
    scatter = [f"{SCATTER}GetWorkspaceSize", SCATTER]
    first, *others = scatter if absent == "scatter" else [f"{QKV}GetWorkspaceSize", QKV, *scatter]
    assert told.startswith(f"{first} is not exported by ")
    assert told.endswith(f"\nthe same holds for {', '.join(others)}")
    assert "Tried" not in told
    assert read["summary"].startswith(f"not ready: {first} is not exported by ")
    assert SCATTER not in {call["function"] for call in recorded(tmp_path)}


def test_a_revision_that_nothing_tells(tmp_path: Path) -> None:
    folder = install(tmp_path, A)
    _, lines = document(4, "--library-dir", str(folder), env=environment(tmp_path, folder))
    faults = [text for verdict, text in lines["operators"] if verdict == "problem"]
    assert len(faults) == 1
    assert faults[0].startswith(f"{QKV}GetWorkspaceSize has had 3 argument lists under one name")
    _, lines = document(4, "--library-dir", str(folder), "--qkv-abi", "A", env=environment(tmp_path, folder))
    assert [verdict for verdict, _ in lines["operators"]] == ["ok"] * 4
    assert problems(lines) == ["calls"]  # these fakes compute nothing


def test_calls_that_leave_wrong_bytes(tmp_path: Path) -> None:
    folder = install(tmp_path, A, declarations(QKV, A))
    _, lines = document(4, "--library-dir", str(folder), env=environment(tmp_path, folder))
    verdict, text = lines["calls"][0]
    assert verdict == "problem"
    assert text.startswith("scatter_pa_kv_cache_with_k_scale left other bytes than it must: key_cache: ")


def test_the_simulator_s_release_by_its_functions() -> None:
    assert release_by_functions(load("simulator")) == ("9.1.0", "9.2.0-beta.1")
