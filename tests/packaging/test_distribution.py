# SPDX-License-Identifier: Apache-2.0
"""What an install puts in place, read from the installed distribution itself."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest

import aclnn_kvcache as kv

ROOT = Path(__file__).parents[2]
NAME = "aclnn-kvcache"
LIB = "aclnn_kvcache/simulator/lib"
CORE = f"{LIB}/libaclsim_core.so"
SETS = {
    folder: {f"{folder}/lib{name}.so" for name in ("ascendcl", "nnopbase", "opapi")}
    for folder in (LIB, f"{LIB}/cann_8_5", f"{LIB}/rev_b", f"{LIB}/rev_c")
}
LIBRARIES = {CORE}.union(*SETS.values())
OPERATORS = ("aclnn_qkv_rms_norm_rope_cache_with_k_scale.h", "aclnn_scatter_pa_kv_cache_with_k_scale.h")
BESIDE = {
    f"{folder}/include/aclnnop/{name}"
    for folder in ("aclnn_kvcache/simulator", f"{LIB}/rev_b", f"{LIB}/rev_c")
    for name in OPERATORS
}
"""The operators' headers where CANN has them, seen from the libraries: they tell the revision."""
RUNPATHS = {LIB: "$ORIGIN"}
"""Of the libraries of a folder; those of a folder below it find the core above them."""
SYSTEM_LIBRARIES = re.compile(r"libc\.so\.6|libm\.so\.6|libpthread\.so\.0|ld-linux-[\w-]+\.so\.\d")


@pytest.fixture(scope="module")
def installed() -> importlib.metadata.Distribution:
    found = importlib.metadata.distribution(NAME)
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        pytest.skip("an editable install leaves the files in the checkout")
    return found


@pytest.fixture(scope="module")
def files(installed: importlib.metadata.Distribution) -> set[str]:
    return {str(path) for path in installed.files or () if "__pycache__" not in path.parts}


def checkout(pattern: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / "aclnn_kvcache").rglob(pattern)}


def test_one_version() -> None:
    written = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    assert written
    assert kv.__version__ == written[1] == importlib.metadata.version(NAME)


def test_tag(installed: importlib.metadata.Distribution) -> None:
    tags = re.findall(r"^Tag: (.+)$", installed.read_text("WHEEL") or "", re.M)
    assert len(tags) == 1
    assert re.fullmatch(r"py3-none-\w*linux\w+", tags[0])


def test_modules_headers_and_marker(files: set[str]) -> None:
    assert {path for path in files if path.endswith(".py")} == checkout("*.py")
    headers = checkout("include/**/*.h")
    assert {path for path in files if path.endswith(".h")} == headers | BESIDE
    assert "aclnn_kvcache/py.typed" in files
    assert {path for path in files if "/replay/programs/" in path} == checkout("replay/programs/*")


def test_simulator_is_there_without_its_sources(files: set[str]) -> None:
    assert {path for path in files if ".so" in path} == LIBRARIES
    assert {PurePosixPath(path).suffix for path in files if path.startswith("aclnn_kvcache/simulator")} == {".so", ".h"}


def test_nothing_else_is_installed(files: set[str]) -> None:
    tops = {PurePosixPath(path).parts[0] for path in files}
    assert {top for top in tops if top != ".." and not top.endswith(".dist-info")} == {"aclnn_kvcache"}
    assert {PurePosixPath(path).name for path in files if path.startswith("..")} == {NAME}


def test_libraries_find_each_other_and_need_nothing_else(installed: importlib.metadata.Distribution) -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("no readelf")
    ours = {PurePosixPath(path).name for path in LIBRARIES}
    for path in sorted(LIBRARIES):
        file = str(installed.locate_file(path))
        text = subprocess.run([readelf, "-dW", file], capture_output=True, text=True, check=True).stdout
        entries = re.findall(r"\((\w+)\).*\[(.*)\]", text)
        assert ("SONAME", PurePosixPath(path).name) in entries
        assert ("RUNPATH", RUNPATHS.get(str(PurePosixPath(path).parent), "$ORIGIN:$ORIGIN/..")) in entries
        needed = {value for kind, value in entries if kind == "NEEDED"} - ours
        assert [name for name in needed if not SYSTEM_LIBRARIES.fullmatch(name)] == []


@pytest.mark.parametrize("name", kv.__all__)
def test_public_names_are_documented(name: str) -> None:
    text = vars(getattr(kv, name)).get("__doc__") if isinstance(getattr(kv, name), type) else getattr(kv, name).__doc__
    assert text
    assert text.strip()
    # A class made of fields alone gets its signature as a docstring.
    assert not text.startswith(f"{name}(")


def test_public_names_are_sorted() -> None:
    assert sorted(kv.__all__) == kv.__all__
