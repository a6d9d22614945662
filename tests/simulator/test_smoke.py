# SPDX-License-Identifier: Apache-2.0
"""The command line: table, JSON, JUnit, exit codes, and what happens when things go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from aclnn_kvcache.smoke.cases import CASES
from aclnn_kvcache.smoke.qkv_cases import QKV_CASES
from aclnn_kvcache.smoke.scatter_cases import SCATTER_CASES, STORAGES

KIND = {"right", "missing", "wrong", "stray", "untouched"}


def smoke(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aclnn_kvcache", "smoke", *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)


def patched(patch: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, after some Python code."""
    source = f"import sys\n{patch}\nfrom aclnn_kvcache.cli import main\nsys.exit(main({['smoke', *words]!r}))"
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)


def test_all_cases_pass_and_the_table_says_what_ran() -> None:
    result = smoke("--backend", "simulator")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "backend    simulator (simulated: no NPU is involved)"
    assert lines[1] == "device     0, Ascend950PR_9599"
    assert lines[2] == "CANN       9.1.0"
    assert [line.split()[1] for line in lines if line.startswith("revision ")] == ["A,", "B,", "C,"]
    total = len(SCATTER_CASES) + sum(len(case.revisions) for case in QKV_CASES.values())
    assert lines[-1] == f"{total} cases on simulator: {total} passed, 0 differ, 0 failed"


def test_each_scene_runs_on_the_revisions_that_have_it(tmp_path: Path) -> None:
    target = tmp_path / "report.xml"
    names = ("padding", "qkv-mha", "qkv-decode", "qkv-mrope-host", "qkv-mx")
    words = [word for name in names for word in ("--case", name)]
    document = json.loads(smoke("--backend", "simulator", "--json", "--junit", str(target), *words).stdout)
    assert (document["revision"], document["exit_code"]) == ("A", 0)
    ran = [(case["name"], case["revision"], case["verdict"]) for case in document["cases"]]
    on_a = [(name, "A", "pass") for name in names[:3]]
    on_b = [(name, "B", "pass") for name in names[2:4]]
    assert ran == [*on_a, *on_b, *((name, "C", "pass") for name in names[2:])]
    assert document["cases"][-1]["rerun"].endswith("--backend simulator --device 0 --qkv-abi C --seed 0 --case qkv-mx")
    suites = ElementTree.parse(target).getroot().findall("testsuite")
    fused = f"aclnn-kvcache.{CASES['qkv-mx'].operator}"
    assert [suite.get("name") for suite in suites[1:]] == [fused, f"{fused}.B", f"{fused}.C"]


def test_a_stated_revision_runs_alone() -> None:
    document = json.loads(smoke("--backend", "simulator", "--json", "--qkv-abi", "C", "--case", "qkv-mx").stdout)
    assert (document["revision"], [case["revision"] for case in document["cases"]]) == ("C", ["C"])
    assert "rev_c" in document["libraries"][0]
    result = smoke("--backend", "simulator", "--qkv-abi", "B", "--case", "decode", "--case", "qkv-mx")
    assert result.returncode == 2
    assert "--case: expected cases that revision B of the fused operator has, got qkv-mx (revision C)" in result.stderr


FAIL_ON_B = """
import subprocess
real = subprocess.run
def run(command, **options):
    broken = "import os; os._exit(9)" if "B" in command else None
    return real([sys.executable, "-c", broken] if broken else command, **options)
subprocess.run = run
"""


def test_a_revision_whose_process_dies_is_a_failure_of_the_run() -> None:
    result = patched(FAIL_ON_B, "--backend", "simulator", "--case", "qkv-mrope", "--json")
    document = json.loads(result.stdout)
    assert (result.returncode, document["exit_code"]) == (4, 4)
    assert document["error"] == "the process for revision B ended with 9"
    assert [(case["revision"], case["verdict"]) for case in document["cases"]] == [("C", "pass")]


def test_json_is_one_document() -> None:
    result = smoke("--backend", "simulator", "--json", "--seed", "11", "--case", "decode", "--case", "padding")
    document = json.loads(result.stdout)
    assert (document["schema"], document["backend"], document["exit_code"], document["error"]) == (
        1,
        "simulator",
        0,
        "",
    )
    assert document["versions"]["cann"] == "9.1.0"
    assert [(c["name"], c["seed"], c["verdict"]) for c in document["cases"]] == [
        ("decode", 11, "pass"),
        ("padding", 11, "pass"),
    ]
    counts = document["cases"][1]["counts"]["key_cache"]
    assert set(counts) == KIND
    assert counts == {"right": 32 * 4, "missing": 0, "wrong": 0, "stray": 0, "untouched": (256 - 32) * 4}
    assert document["cases"][0]["rerun"] == "aclnn-kvcache smoke --backend simulator --device 0 --seed 11 --case decode"


def test_junit_is_written(tmp_path: Path) -> None:
    target = tmp_path / "report.xml"
    assert smoke("--backend", "simulator", "--junit", str(target), "--case", "decode").returncode == 0
    suite = ElementTree.parse(target).getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    assert [case.get("name") for case in suite.iter("testcase")] == ["decode[seed=0]"]


SKIP_A_ROW = """
from aclnn_kvcache import Session
real = Session.scatter_pa_kv_cache_with_k_scale
def wrong(self, **arguments):
    arguments["slot_mapping"] = arguments["slot_mapping"][:-1]
    for name in ("key", "value", "key_scale"): arguments[name] = arguments[name][:-1]
    real(self, **arguments)
Session.scatter_pa_kv_cache_with_k_scale = wrong
"""


def test_a_missing_row_is_reported_and_exits_1(tmp_path: Path) -> None:
    target = tmp_path / "report.xml"
    result = patched(SKIP_A_ROW, "--backend", "simulator", "--case", "decode", "--junit", str(target))
    assert result.returncode == 1
    assert "differ decode" in result.stdout
    assert "rerun: aclnn-kvcache smoke --backend simulator --device 0 --seed 0 --case decode" in result.stdout
    failure = ElementTree.parse(target).getroot().find(".//failure")
    assert failure is not None
    assert "missing" in (failure.text or "")
    assert "rerun: " in (failure.text or "")


HANG = """
import time
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.native.library import load
from aclnn_kvcache.smoke import watchdog
watchdog.GRACE = 0.3
load("simulator").aclsim_hold_streams()
"""


def test_a_device_that_hangs_is_given_back_and_exits_4() -> None:
    result = patched(HANG, "--backend", "simulator", "--case", "decode", "--timeout", "1", "--json")
    assert result.returncode == 4
    document = json.loads(result.stdout)
    assert document["cases"][0]["verdict"] == "error"
    assert "507046" in document["cases"][0]["detail"]


def test_a_native_call_that_never_returns_ends_the_process() -> None:
    stuck = HANG + "import aclnn_kvcache as kv\nkv.Session.array = lambda self, host: time.sleep(60)\n"
    result = patched(stuck, "--backend", "simulator", "--case", "decode", "--timeout", "0.5")
    assert result.returncode == 4
    assert "giving the device back" in result.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--backend", "nonsense"], 2, "invalid choice"),
        (["--backend", "simulator", "--case", "nonsense"], 2, "invalid choice"),
        (["--backend", "simulator", "--timeout", "0"], 2, "not a number of seconds above 0"),
        (["--backend", "simulator", "--timeout", "soon"], 2, "'soon' is not a number of seconds above 0"),
        (["--backend", "simulator", "--seed", "-1"], 2, "'-1' is not an integer from 0 on"),
        (["--backend", "simulator", "--device", "4294967296"], 2, "'4294967296' is not the index of a device"),
        (["--backend", "simulator", "--library-dir", ""], 2, "library_dir: expected the path of a folder"),
        (["--backend", "simulator", "--case", "decode", "--junit", "/proc/report.xml"], 2, "/proc/report.xml: No such"),
        (["--backend", "simulator", "--junit", "no/such/folder/x.xml"], 2, "not a file in an existing folder"),
        (["--backend", "simulator", "--device", "2"], 3, "107001"),
        (["--backend", "simulator", "--library-dir", "/nowhere"], 3, "There is no folder /nowhere to take"),
        (
            ["--backend", "simulator", "--library-dir", "relative"],
            3,
            "is not searched: a relative path is never searched",
        ),
    ],
)
def test_wrong_usage_and_missing_devices_have_their_own_codes(words: list[str], code: int, text: str) -> None:
    result = smoke(*words)
    assert (result.returncode, text in result.stderr) == (code, True), result.stderr


def test_d8_without_cann_the_device_backend_says_what_it_tried() -> None:
    clean = {name: "" for name in os.environ if name.startswith("ASCEND") or name == "LD_LIBRARY_PATH"}
    result = smoke("--backend", "auto", "--json", **{**clean, "ACLNN_KVCACHE_LIB_DIR": ""})
    assert result.returncode == 3
    assert json.loads(result.stdout)["exit_code"] == 3
    for part in (
        "libascendcl.so",
        "libacl_rt.so",
        "/usr/local/Ascend/cann/lib64",
        "set_env.sh",
        "setting os.environ now",
    ):
        assert part in result.stderr


def test_a_pipe_that_closes_early_is_no_difference() -> None:
    command = f"{sys.executable} -m aclnn_kvcache smoke --backend simulator | head -n 1; echo ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout.splitlines()[1] in ("0", "141")
    assert "Traceback" not in result.stderr


def test_a_limit_that_has_passed_ends_the_run() -> None:
    result = smoke("--backend", "simulator", "--timeout", "0.0001")
    assert result.returncode == 4
    assert "the time limit of the run has passed" in result.stdout


def test_the_list_names_every_case() -> None:
    assert [line.split()[0] for line in smoke("--list").stdout.splitlines()] == list(CASES)


def test_the_list_in_json() -> None:
    document = json.loads(smoke("--list", "--json").stdout)
    assert {name: document[name] for name in ("schema", "command", "exit_code")} == {
        "schema": 1,
        "command": "smoke",
        "exit_code": 0,
    }
    assert [(case["name"], case["revisions"]) for case in document["cases"]] == [
        (name, case.revisions) for name, case in CASES.items()
    ]
    assert {case["name"]: case["operator"] for case in document["cases"]}["qkv-decode"] == CASES["qkv-decode"].operator


def test_every_storage_is_used_by_a_case() -> None:
    assert {case.storage for case in SCATTER_CASES.values()} == set(STORAGES)


@pytest.mark.parametrize("name", SCATTER_CASES)
def test_cases_fit_their_caches(name: str) -> None:
    case = SCATTER_CASES[name]
    assert case.tokens - case.padding <= case.blocks * case.block_size
    assert case.storage not in ("interleaved", "fused_qkv") or case.key_size == case.value_size
