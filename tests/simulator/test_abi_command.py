# SPDX-License-Identifier: Apache-2.0
"""``aclnn-kvcache abi``: the argument lists in force, on the simulator and on installations of other revisions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from revision_fakes import (
    PHASE_2,
    QKV,
    QKV_HEADER,
    REVISIONS,
    SCATTER,
    A,
    B,
    copy_libraries,
    declarations,
    environment,
    install,
    names,
    recorded,
    simulated,
)

FUSED, SCATTERING = f"{QKV}GetWorkspaceSize", f"{SCATTER}GetWorkspaceSize"
FUNCTIONS = {FUSED, QKV, SCATTERING, SCATTER}
NEVER_CHANGED = "the header of this package; the function has had one argument list in all known releases"
FIELDS = {"name", "library", "prototype", "source", "differences", "missing", "error", "revision"}


def abi(*words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aclnn_kvcache", "abi", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)


def on(root: Path, folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The command on an installation; it never calls an operator."""
    done = abi("--library-dir", str(folder), *words, env=environment(root, folder, **environ))
    assert recorded(root) == []
    return done


def document(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (code, ""), done.stderr
    read: dict[str, Any] = json.loads(done.stdout)
    assert (read["schema"], read["command"], read["error"], read["exit_code"]) == (1, "abi", "", code)
    assert {function["name"] for function in read["functions"]} == FUNCTIONS
    for function in read["functions"]:
        assert set(function) == FIELDS
        assert function["revision"] is None or function["name"] == FUSED
    return read


def by_name(read: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {function["name"]: function for function in read["functions"]}


def spelled(operator: str, parameters: str) -> str:
    """The prototype of phase 1 as the command shows it."""
    spaced = " ".join(parameters.replace("const ", "").split())
    return f"aclnnStatus {operator}GetWorkspaceSize({spaced})"


def test_json_on_the_simulator() -> None:
    read = document(abi("--backend", "simulator", "--json"))
    folder = simulated()
    assert read["backend"] == "simulator"
    assert set(read["libraries"]) == {str(folder / f"lib{name}.so") for name in ("ascendcl", "nnopbase", "opapi")}
    for name, function in by_name(read).items():
        assert function["library"] == str(folder / "libopapi.so")
        assert function["prototype"].startswith(f"aclnnStatus {name}(")
        assert function["source"].startswith(f"the installed header {folder.parent}/include/aclnnop/aclnn_")
        assert (function["differences"], function["missing"], function["error"]) == ([], False, "")
    assert by_name(read)[FUSED]["prototype"] == spelled(QKV, A)
    assert by_name(read)[FUSED]["revision"] == "A"
    assert by_name(read)[QKV]["prototype"] == f"aclnnStatus {QKV}({PHASE_2})"


def test_text_on_the_simulator() -> None:
    done = abi("--backend", "simulator")
    assert (done.returncode, done.stderr) == (0, "")
    first, *blocks = done.stdout.strip().split("\n\n")
    assert first == "backend  simulator"
    assert {block.splitlines()[0] for block in blocks} == FUNCTIONS
    for block in blocks:
        name, library, source, *revision, in_force, differs = block.splitlines()
        assert revision == (["  revision   A"] if name == FUSED else [])
        assert library == f"  library    {simulated() / 'libopapi.so'}"
        assert source.startswith("  source     the installed header /")
        assert in_force.startswith(f"  in force   aclnnStatus {block.splitlines()[0]}(")
        assert differs == "  differs    nothing"


@pytest.mark.parametrize("how", ["header", "option", "variable"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_each_revision(tmp_path: Path, revision: str, how: str) -> None:
    parameters = REVISIONS[revision]
    folder = install(tmp_path, parameters, declarations(QKV, parameters) if how == "header" else None)
    words = ["--qkv-abi", revision] if how == "option" else []
    environ = {"ACLNN_KVCACHE_QKV_ABI": revision} if how == "variable" else {}
    functions = by_name(document(on(tmp_path, folder, "--json", *words, **environ)))
    header = f"the installed header {tmp_path / QKV_HEADER}"
    assert functions[FUSED] == {
        "name": FUSED,
        "library": str(folder / "libopapi.so"),
        "prototype": spelled(QKV, parameters),
        "source": header if how == "header" else f"revision {revision!r}, as stated",
        "differences": [],
        "missing": False,
        "error": "",
        "revision": revision,
    }
    assert functions[QKV]["source"] == (header if how == "header" else NEVER_CHANGED)
    assert (functions[SCATTERING]["source"], functions[SCATTERING]["differences"]) == (NEVER_CHANGED, [])


def test_text_of_another_revision(tmp_path: Path) -> None:
    done = on(tmp_path, install(tmp_path, B, declarations(QKV, B)))
    assert (done.returncode, done.stderr) == (0, "")
    [block] = [block for block in done.stdout.split("\n\n") if block.startswith(f"{FUSED}\n")]
    assert [line for line in block.splitlines() if line.startswith(("  revision", "  differs"))] == [
        "  revision   B",
        "  differs    nothing",
    ]


def test_an_argument_that_is_theirs_alone_is_a_difference(tmp_path: Path) -> None:
    parameters = B.replace("float epsilon,", "float epsilon, const aclTensor *sinksOptional,")
    function = by_name(document(on(tmp_path, install(tmp_path, parameters, declarations(QKV, parameters)), "--json")))
    assert function[FUSED]["differences"] == ["sinksOptional (aclTensor *) is theirs alone and gets NULL"]
    assert function[FUSED]["revision"] == "B"


def test_another_order_is_a_difference(tmp_path: Path) -> None:
    first, second, *rest = A.split(",")
    parameters = ",".join([second, first, *rest])
    assert sorted(names(parameters)) == sorted(names(A))
    read = document(on(tmp_path, install(tmp_path, parameters, declarations(QKV, parameters)), "--json"))
    assert by_name(read)[FUSED]["differences"] == ["the arguments stand in another order"]


UNKNOWN = A.replace("float epsilon,", "float epsilon, int64_t blockMode,")
REFUSED = {
    "no header": (A, None, [], "State the revision: qkv_abi='A' or 'B' or 'C'"),
    "contradicted": (B, declarations(QKV, B), ["--qkv-abi", "A"], "revision 'A' was stated, but the header installed"),
    "unknown": (UNKNOWN, declarations(QKV, UNKNOWN), [], "blockMode (int64_t) is not known here and may not be NULL"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_function_that_cannot_be_called(tmp_path: Path, case: str) -> None:
    parameters, header, words, reason = REFUSED[case]
    folder = install(tmp_path, parameters, header)
    functions = by_name(document(on(tmp_path, folder, "--json", *words), 4))
    assert reason in functions[FUSED]["error"]
    assert functions[FUSED]["missing"] is False
    assert {name for name, function in functions.items() if function["error"]} == {FUSED}
    done = on(tmp_path, folder, *words)
    assert (done.returncode, done.stderr) == (4, "")
    assert f"\n{FUSED}\n  cannot be called: {FUSED}" in done.stdout.replace(f"{folder / 'libopapi.so'} exports ", "")
    assert reason in done.stdout
    assert f"\n{SCATTERING}\n  library    {folder / 'libopapi.so'}\n" in done.stdout


@pytest.mark.parametrize("absent", ["scatter", "fused", "all"])
def test_a_function_that_no_library_exports(tmp_path: Path, absent: str) -> None:
    if absent == "all":
        folder = copy_libraries(tmp_path)
    else:
        folder = install(tmp_path, None if absent == "fused" else A, scatter=absent != "scatter")
    missing = {"scatter": {SCATTERING, SCATTER}, "fused": {FUSED, QKV}, "all": FUNCTIONS}[absent]
    functions = by_name(document(on(tmp_path, folder, "--json", "--qkv-abi", "A"), 3))
    assert {name for name, function in functions.items() if function["missing"]} == missing
    for name in missing:
        assert f"{name} is not exported by " in functions[name]["error"]
    done = on(tmp_path, folder, "--qkv-abi", "A")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.count("cannot be called: ") == len(missing)


@pytest.mark.parametrize("backend", ["auto", "cann", "simulator"])
def test_no_backend(tmp_path: Path, backend: str) -> None:
    done = abi("--backend", backend, "--library-dir", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    for part in (f"no libraries of backend {backend!r}", f"{tmp_path}/libascendcl.so", "no such file"):
        assert part in done.stderr


def test_no_backend_as_json(tmp_path: Path) -> None:
    done = abi("--library-dir", str(tmp_path), "--json")
    assert done.returncode == 3
    read = json.loads(done.stdout)
    assert (read["schema"], read["command"], read["backend"], read["functions"]) == (1, "abi", "", [])
    assert (read["error"], read["exit_code"]) == (done.stderr.rstrip("\n"), 3)
    assert f"{tmp_path}/libascendcl.so" in read["error"]


def test_the_simulator_is_no_cann() -> None:
    done = abi("--backend", "cann", "--library-dir", str(simulated()))
    assert (done.returncode, done.stdout) == (3, "")
    assert "this is the simulator, not CANN" in done.stderr


def test_a_revision_that_does_not_exist() -> None:
    done = abi("--backend", "simulator", "--qkv-abi", "D")
    assert (done.returncode, done.stdout) == (2, "")
    assert "invalid choice: 'D'" in done.stderr
    done = abi("--backend", "simulator", env={**os.environ, "ACLNN_KVCACHE_QKV_ABI": "D"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "ACLNN_KVCACHE_QKV_ABI: expected 'A' or 'B' or 'C', got 'D'" in done.stderr
