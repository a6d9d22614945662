# SPDX-License-Identifier: Apache-2.0
"""The sets of libraries in folders below the simulator's own: other releases of CANN, with fewer symbols, and other
revisions of the fused operator, with other arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from aclnn_kvcache.native.library import load

OPERATORS = ("aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale")
LACKS = {
    "": set(),
    "cann_8_5": {
        *("aclrtMemsetD32", "aclDumpOpTensors"),
        *(f"{name}{phase}" for name in OPERATORS for phase in ("", "GetWorkspaceSize")),
    },
    "rev_b": set(),
    "rev_c": set(),
}
"""Folders, and what their libraries do not export of what our headers declare."""


def folder(name: str) -> str:
    return str(Path(load("simulator").paths[0]).parent / name)


def answer(name: str, code: str, **environ: str) -> Any:
    """What code, run in a process of its own that takes its libraries from the folder, answers."""
    head = """
        import json, os, sys
        import aclnn_kvcache as kv
        from aclnn_kvcache.native.library import load
        from aclnn_kvcache.native.prototypes import declarations
        sys.path.insert(0, sys.argv[2])
        from test_profiles import fused, scatter
        def answer(fact): print(json.dumps(fact))
        def opened(): return kv.Session(backend="simulator", library_dir=sys.argv[1])
    """
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(code), folder(name), here]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=here, env={**os.environ, **environ}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", LACKS)
def test_missing_symbols(name: str) -> None:
    code = """
        library = load("simulator", sys.argv[1])
        answer([name for name in declarations().prototypes if not library.exports(name)])
    """
    assert set(answer(name, code)) == LACKS[name]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_session_without_the_operators(operator: str) -> None:
    code = f"""
        call = scatter if {operator!r} == "aclnnScatterPaKvCacheWithKScale" else fused
        with opened() as session:
            libraries = session.libraries
            try:
                call(session)
            except kv.SymbolNotFoundError as error:
                text = str(error)
            session.stream.synchronize()
            version = session.cann_version
        counters = [name for name in declarations().constants if name.startswith("ACLSIM_LIVE")]
        library = load("simulator")
        live = [name for name in counters if library.aclsim_counter(declarations().constants[name])]
        answer([libraries, version, live, text])
    """
    libraries, version, live, text = answer("cann_8_5", code, ACLNN_KVCACHE_LIB_DIR=folder("cann_8_5"))
    home = folder("cann_8_5")
    assert libraries == [f"{home}/libascendcl.so", f"{home}/libnnopbase.so"]
    assert (version, live) == ("8.5.0", [])
    assert text.startswith(f"{operator}GetWorkspaceSize is not exported by {home}/libopapi.so: this is CANN 8.5.0. ")
    assert "install one that has it" in text
    assert "ASCEND_CUSTOM_OPP_PATH" in text


def test_a_function_that_came_later_says_so() -> None:
    code = """
        try:
            load("simulator", sys.argv[1]).aclrtMemsetD32
        except kv.SymbolNotFoundError as error:
            answer(str(error))
    """
    text = answer("cann_8_5", code)
    home = folder("cann_8_5")
    assert text.startswith(f"aclrtMemsetD32 is not exported by {home}/libascendcl.so: this is CANN 8.5.0. ")
    assert "install that, and source its set_env.sh" in text


def test_a_profile_goes_over_the_version_of_the_libraries() -> None:
    code = "with opened() as session: answer([session.cann_version, session.soc_name])"
    assert answer("cann_8_5", code) == ["8.5.0", "Ascend950PR_9599"]
    environ = {"ACLSIM_PROFILE": "cann=8.3.0;soc=Ascend910B2"}
    assert answer("cann_8_5", code, **environ) == ["8.3.0", "Ascend910B2"]


def test_a_process_holds_one_set() -> None:
    code = """
        load("simulator", sys.argv[1])
        try:
            load("simulator", os.path.dirname(sys.argv[1]))
        except kv.LibraryConflictError as error:
            answer(str(error))
    """
    assert f"this process already holds {folder('cann_8_5')}/libascendcl.so" in answer("cann_8_5", code)


def test_the_sets_are_all_here() -> None:
    below = {path.parent.name for path in Path(folder("")).glob("*/libascendcl.so")}
    assert below == set(LACKS) - {""}
