# SPDX-License-Identifier: Apache-2.0
"""C and C++ programs written for CANN build against the headers and libraries of this package, unchanged, and run."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.native.library import load

PROGRAMS = Path(__file__).parent / "programs"
INCLUDE = Path(kv.__file__).parent / "include"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = {".c": (("cc", "gcc", "clang"), ["-std=c11"]), ".cpp": (("c++", "g++", "clang++"), ["-std=c++17"])}


def compiler(suffix: str) -> list[str]:
    names, options = COMPILERS[suffix]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"no compiler for {suffix}")
    return [found, *options, *STRICT, "-I", str(INCLUDE)]


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment, timeout=60
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("source", sorted(PROGRAMS.iterdir()), ids=lambda path: path.name)
def test_program_for_cann(source: Path, tmp_path: Path) -> None:
    folder = str(Path(load("simulator").paths[0]).parent)
    program = str(tmp_path / "program")
    # Variadic macros without arguments are an extension that CANN's samples use.
    options = ["-Wno-pedantic"] if source.suffix == ".cpp" else []
    link = ["-L", folder, "-lascendcl", "-lnnopbase", "-lopapi"]
    run([*compiler(source.suffix), *options, str(source), "-o", program, *link])
    assert run([program], LD_LIBRARY_PATH=folder).splitlines()[-1] == "test pass"


RELEASE = """
#include <stdio.h>
#include "acl/acl.h"
#include "aclnn/acl_meta.h"
int main(void)
{
    char version[128] = "", package[] = "runtime";
    void *memory;
    aclIntArray *array = aclCreateIntArray((int64_t[]){1, 2}, 2);
    int good = aclInit(NULL) == 0 && aclrtSetDevice(0) == 0 && aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST) == 0
        && aclrtFree(memory) == 0 && aclDestroyIntArray(array) == 0 && aclsysGetVersionStr(package, version) == 0;
    printf("%d %s\\n", good, version);
    return aclrtResetDevice(0) + aclFinalize();
}
"""


def test_a_set_of_another_release_is_complete(tmp_path: Path) -> None:
    folder = str(Path(load("simulator").paths[0]).parent / "cann_8_5")
    (tmp_path / "release.c").write_text(RELEASE, encoding="utf-8")
    link = ["-L", folder, "-lascendcl", "-lnnopbase", "-lopapi"]
    run([*compiler(".c"), str(tmp_path / "release.c"), "-o", str(tmp_path / "release"), *link])
    assert run([str(tmp_path / "release")], LD_LIBRARY_PATH=folder) == "1 8.5.0\n"
    scatter = [*compiler(".c"), str(PROGRAMS / "scatter.c"), "-o", str(tmp_path / "scatter"), *link]
    done = subprocess.run(scatter, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "aclnnScatterPaKvCacheWithKScaleGetWorkspaceSize" in done.stderr


REVISION = """
#include <stdio.h>
#include "aclnnop/aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"
#include "aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h"
int main(void)
{
    uint64_t size;
    aclOpExecutor *executor;
    printf("%d\\n", aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(ARGUMENTS, &size, &executor));
    return aclnnScatterPaKvCacheWithKScale(NULL, 0, NULL, NULL) == 0;
}
"""


@pytest.mark.parametrize(("revision", "count"), [("b", 23), ("c", 24)])
def test_a_set_of_another_revision_is_complete(revision: str, count: int, tmp_path: Path) -> None:
    """Header and libraries of one folder; the arguments are all NULL but epsilon and where the answer goes."""
    folder = Path(load("simulator").paths[0]).parent / f"rev_{revision}"
    arguments = ", ".join("0.0F" if index == 16 else "NULL" for index in range(count - 2))
    (tmp_path / "revision.c").write_text(REVISION.replace("ARGUMENTS", arguments), encoding="utf-8")
    command = [*compiler(".c")[:-2], "-I", str(folder / "include"), "-I", str(INCLUDE)]
    link = ["-L", str(folder), "-lascendcl", "-lnnopbase", "-lopapi"]
    run([*command, str(tmp_path / "revision.c"), "-o", str(tmp_path / "revision"), *link])
    assert run([str(tmp_path / "revision")], LD_LIBRARY_PATH=str(folder)) == "161001\n"


HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))


@pytest.mark.parametrize("suffix", COMPILERS)
def test_headers_stand_alone(suffix: str, tmp_path: Path) -> None:
    command = compiler(suffix)
    sources = []
    for number, header in enumerate(HEADERS):
        source = tmp_path / f"{number}{suffix}"
        source.write_text(f'#include "{header}"\n#include "{header}"\n', encoding="utf-8")
        sources.append(str(source))
    run([*command, "-fsyntax-only", *sources])
