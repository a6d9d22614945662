# SPDX-License-Identifier: Apache-2.0
"""Loading and binding, on tiny libraries made here. Every load is in a process of its own, which holds one set."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aclnn_kvcache
from aclnn_kvcache.native.prototypes import INCLUDE

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

OPERATOR = "aclnnScatterPaKvCacheWithKScale"
HEADER = Path("include/aclnnop/aclnn_scatter_pa_kv_cache_with_k_scale.h")

PRELUDE = """
import json
from aclnn_kvcache.native.library import load
def answer(**facts): print(json.dumps(facts))
def error_of(act):
    try:
        return ["no error", repr(act())]
    except Exception as error:
        return [type(error).__name__, str(error)]
def operator(library): return library.aclnnScatterPaKvCacheWithKScale(None, 0, None, None)
"""


def build(path, *functions, value=0, needs=()):
    """A library whose functions return ``value``, so that a test sees whose function it called."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = "".join(f"int {name}(void) {{ return {value}; }}\n" for name in functions)
    command = [CC, "-shared", "-fPIC", f"-Wl,-soname,{path.name},--no-as-needed", "-x", "c", "-", "-o", str(path)]
    subprocess.run([*command, "-x", "none", *map(str, needs)], input=source, text=True, check=True)
    return path


def cann(folder, runtime="libascendcl.so", value=1, operators=("libopapi.so",), extra=()):
    build(folder / runtime, "aclInit", "aclrtMalloc", *extra, value=value)
    build(folder / "libnnopbase.so", "aclCreateTensor", "aclnnInit", value=value)
    for number, name in enumerate(operators):
        build(folder / name, OPERATOR, value=10 * value + number)
    return folder


def simulator(folder):
    return cann(folder, extra=["aclsim_version"], value=2)


def run(script, cwd=None, **environ):
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ASCEND", "ACLNN_")) and name not in ("LD_LIBRARY_PATH", "LD_PRELOAD", "HOME")
    }
    packages = os.pathsep.join(str(Path(path).parent) for path in aclnn_kvcache.__path__)
    environ = {name: str(value) for name, value in environ.items()}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        env={**clean, "PYTHONPATH": packages, **environ},
        cwd=cwd,
        text=True,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# --- finding the set


@pytest.mark.parametrize("runtime", ["libascendcl.so", "libacl_rt.so"])
def test_the_runtime_may_be_either_library(tmp_path, runtime):
    cann(tmp_path, runtime)
    script = "s = load('cann')\nanswer(backend=s.backend, paths=s.paths, result=s.aclInit(None))"
    facts = run(script, ACLNN_KVCACHE_LIB_DIR=tmp_path)
    assert facts == {
        "backend": "cann",
        "paths": [str(tmp_path / runtime), str(tmp_path / "libnnopbase.so")],
        "result": 1,
    }


def test_the_first_of_the_two_runtimes_that_loads_is_taken(tmp_path):
    cann(tmp_path)
    build(tmp_path / "libacl_rt.so", "aclInit", value=99)
    assert run("answer(r=load('cann').aclInit(None))", ACLNN_KVCACHE_LIB_DIR=tmp_path) == {"r": 1}
    (tmp_path / "libascendcl.so").write_text("not a library")
    assert run("answer(r=load('cann').aclInit(None))", ACLNN_KVCACHE_LIB_DIR=tmp_path) == {"r": 99}


@pytest.mark.parametrize("name", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_an_installation_is_found_by_its_variables(tmp_path, name):
    cann(tmp_path / "lib64")
    assert run("answer(b=load().backend)", **{name: tmp_path}) == {"b": "cann"}


def test_case_d8_without_any_library_the_message_says_what_was_tried_and_what_to_do(tmp_path):
    installed = [root for root in ("/usr/local/Ascend/cann", "/opt/Ascend/cann") if Path(root).exists()]
    if installed:
        pytest.skip(f"CANN is installed in {installed}")
    empty = tmp_path / "empty"
    facts = run("answer(e=error_of(load), c=error_of(lambda: load('cann')))", ASCEND_HOME_PATH=empty, HOME=tmp_path)
    for name, text in facts.values():
        assert name == "LibraryNotFoundError"
        assert text.startswith("No CANN libraries could be loaded. ")
        for part in (
            "source <CANN root>/set_env.sh' before starting Python (setting os.environ now is too late",
            'backend="simulator"',
            f"{empty}/lib64/libascendcl.so (environment variable ASCEND_HOME_PATH): no such file",
            f"{empty}/lib64/libacl_rt.so (environment variable ASCEND_HOME_PATH): no such file",
            "/usr/local/Ascend/cann/lib64/libascendcl.so (default install root): no such file",
            f"{tmp_path}/Ascend/cann/lib64/libascendcl.so (default install root): no such file",
            "libascendcl.so (the system loader): the loader says: libascendcl.so: cannot open shared object file",
            "libacl_rt.so (the system loader): the loader says: ",
        ):
            assert part in text


def test_case_d8_a_missing_dependency_is_named(tmp_path):
    dependency = build(tmp_path / "libascend_hal.so", "halGet")
    build(tmp_path / "libascendcl.so", "aclInit", needs=[dependency])
    dependency.unlink()
    [name, text] = run("answer(e=error_of(lambda: load('cann')))", ACLNN_KVCACHE_LIB_DIR=tmp_path)["e"]
    assert name == "LibraryNotFoundError"
    assert f"{tmp_path}/libascendcl.so (environment variable ACLNN_KVCACHE_LIB_DIR): the loader says: " in text
    assert "libascend_hal.so: cannot open shared object file" in text


def test_half_an_installation_is_not_one(tmp_path):
    build(tmp_path / "libascendcl.so", "aclInit")
    [name, text] = run("answer(e=error_of(load))", ACLNN_KVCACHE_LIB_DIR=tmp_path)["e"]
    assert name == "LibraryNotFoundError"
    assert "libascendcl.so (environment variable ACLNN_KVCACHE_LIB_DIR): loaded" in text
    assert "libnnopbase.so (environment variable ACLNN_KVCACHE_LIB_DIR): no such file" in text


@pytest.mark.parametrize("environ", [{}, {"LD_LIBRARY_PATH": ":"}, {"LD_LIBRARY_PATH": "."}, {"ASCEND_HOME_PATH": "."}])
def test_the_working_directory_is_never_searched(tmp_path, environ):
    cann(tmp_path)
    cann(tmp_path / "lib64")
    script = (
        "from aclnn_kvcache.native import discovery\ndiscovery.RUNTIME = ('libascendcl.so',)\nanswer(e=error_of(load))"
    )
    [name, text] = run(script, cwd=tmp_path, HOME=tmp_path / "home", **environ)["e"]
    assert name == "LibraryNotFoundError"
    assert str(tmp_path / "lib") not in text
    assert "loaded" not in text.replace("could be loaded", "")


def test_a_relative_library_dir_is_refused_with_its_reason(tmp_path):
    cann(tmp_path / "lib")
    [name, text] = run("answer(e=error_of(lambda: load('cann', 'lib')))", cwd=tmp_path)["e"]
    assert name == "LibraryNotFoundError"
    assert "lib (the library_dir argument): skipped: a relative path is never searched" in text


def test_an_unknown_backend_is_an_argument_error():
    [name, text] = run("answer(e=error_of(lambda: load('npu')))")["e"]
    assert name == "ArgumentError"
    assert text == "backend: expected 'auto' or 'cann' or 'simulator', got 'npu'"


# --- CANN or simulator


def test_backend_cann_refuses_a_simulator(tmp_path):
    simulator(tmp_path)
    [name, text] = run("answer(e=error_of(lambda: load('cann')))", ACLNN_KVCACHE_LIB_DIR=tmp_path)["e"]
    assert name == "LibraryNotFoundError"
    assert f"{tmp_path}/libascendcl.so" in text
    assert "this is the simulator, not CANN" in text


def test_backend_simulator_refuses_cann(tmp_path):
    cann(tmp_path)
    [name, text] = run("answer(e=error_of(lambda: load('simulator')))", ACLNN_KVCACHE_LIB_DIR=tmp_path)["e"]
    assert name == "LibraryNotFoundError"
    assert "this is CANN, not the simulator" in text


@pytest.mark.parametrize("backend", ["auto", "simulator"])
def test_a_simulator_that_the_caller_names_is_called_one(tmp_path, backend):
    simulator(tmp_path)
    script = f"answer(a=load({backend!r}, {str(tmp_path)!r}).backend)"
    assert run(script) == {"a": "simulator"}
    assert run(f"answer(a=load({backend!r}).backend)", ACLNN_KVCACHE_LIB_DIR=tmp_path) == {"a": "simulator"}


def test_auto_never_falls_back_to_a_simulator_that_the_caller_did_not_name(tmp_path):
    simulator(tmp_path / "lib64")
    [name, text] = run("answer(e=error_of(load))", ASCEND_HOME_PATH=tmp_path)["e"]
    assert name == "LibraryNotFoundError"
    assert "this is the simulator, not CANN" in text


# --- one set per process


def test_loading_again_gives_the_same_object_also_through_a_link(tmp_path):
    cann(tmp_path / "lib")
    (tmp_path / "link").symlink_to(tmp_path / "lib")
    folders = [str(tmp_path / "lib"), str(tmp_path / "link")]
    assert run(f"a, b = map(lambda f: load('cann', f), {folders})\nanswer(same=a is b)") == {"same": True}


def linked(folder, to, **operators):
    """A folder that leads to another's libraries, but to operators of its own if a value is given for them."""
    folder.mkdir(parents=True)
    for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so"):
        if name != "libopapi.so" or not operators:
            (folder / name).symlink_to(to / name)
    if operators:
        build(folder / "libopapi.so", OPERATOR, **operators)
    return folder


def test_other_operators_on_the_same_runtime_are_a_second_set(tmp_path):
    a = simulator(tmp_path / "lib")
    same, other = linked(tmp_path / "same", a), linked(tmp_path / "rev_c", a, value=99)
    script = f"""
first = load("simulator", {str(a)!r})
answer(same=load("simulator", {str(same)!r}) is first, error=error_of(lambda: load("simulator", {str(other)!r})))
"""
    facts = run(script)
    assert facts["same"] is True
    name, text = facts["error"]
    assert name == "LibraryConflictError"
    assert text.startswith(f"{other} cannot be used: it shares {a / 'libascendcl.so'} with the set that this process")


def test_a_revision_stated_before_chooses_the_simulator_s_folder(tmp_path):
    simulator(tmp_path)
    cann(tmp_path / "rev_c", extra=["aclsim_version"], value=3)
    script = "answer(paths=[load('simulator', qkv_abi='C').paths[0], load('simulator').paths[0]])"
    path = str(tmp_path / "rev_c" / "libascendcl.so")
    assert run(script, ACLNN_KVCACHE_LIB_DIR=tmp_path) == {"paths": [path, path]}
    script = "load('simulator')\nanswer(error=error_of(lambda: load('simulator', qkv_abi='C')))"
    name, text = run(script, ACLNN_KVCACHE_LIB_DIR=tmp_path)["error"]
    assert name == "LibraryConflictError"
    assert str(tmp_path / "rev_c") in text


def test_a_second_set_is_refused_and_both_are_named(tmp_path):
    first, second = cann(tmp_path / "a"), simulator(tmp_path / "b")
    script = f"load('auto', {str(first)!r})\nanswer(e=error_of(lambda: load('auto', {str(second)!r})))"
    [name, text] = run(script)["e"]
    assert name == "LibraryConflictError"
    assert f"{second}/libascendcl.so cannot be loaded: this process already holds {first}/libascendcl.so" in text
    assert "start another process" in text


# --- operators


def test_operator_libraries_are_opened_at_the_first_operator(tmp_path):
    cann(tmp_path)
    facts = run(
        "s = load('cann')\n"
        "def maps(): return 'libopapi' in open('/proc/self/maps').read()\n"
        "s.aclInit(None)\n"
        "before = [maps(), len(s.paths)]\n"
        "result = operator(s)\n"
        "answer(before=before, result=result, after=[maps(), s.paths[2:]])",
        ACLNN_KVCACHE_LIB_DIR=tmp_path,
    )
    assert facts == {"before": [False, 2], "result": 10, "after": [True, [f"{tmp_path}/libopapi.so"]]}


def test_the_transformer_library_goes_before_the_big_one(tmp_path):
    cann(tmp_path, operators=["libopapi.so", "libopapi_transformer.so"])
    assert run("answer(r=operator(load()))", ACLNN_KVCACHE_LIB_DIR=tmp_path) == {"r": 11}


def test_an_operator_that_the_transformer_library_lacks_is_taken_from_the_big_one(tmp_path):
    cann(tmp_path)
    build(tmp_path / "libopapi_transformer.so", "aclnnOther")
    assert run("answer(r=operator(load()))", ACLNN_KVCACHE_LIB_DIR=tmp_path) == {"r": 10}


def test_a_custom_package_goes_first(tmp_path):
    cann(tmp_path / "lib64")
    lib = Path("op_api/lib/libcust_opapi.so")
    build(tmp_path / "old" / lib, "aclnnOther")
    build(tmp_path / "new" / lib, OPERATOR, value=77)
    facts = run(
        "s = load()\nanswer(r=operator(s), paths=s.paths[2:])",
        ASCEND_HOME_PATH=tmp_path,
        ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/old:{tmp_path}/new",
    )
    assert facts == {"r": 77, "paths": [str(tmp_path / "old" / lib), str(tmp_path / "new" / lib)]}


def test_a_vendor_of_the_installation_goes_before_it(tmp_path):
    cann(tmp_path / "lib64")
    build(tmp_path / "opp/vendors/v/op_api/lib/libcust_opapi.so", OPERATOR, value=78)
    (tmp_path / "opp/vendors/config.ini").write_text("load_priority=v\n")
    environ = {"ASCEND_HOME_PATH": tmp_path, "ASCEND_OPP_PATH": tmp_path / "opp"}
    assert run("answer(r=operator(load()))", **environ) == {"r": 78}


def test_a_function_that_no_library_exports_names_the_libraries_tried(tmp_path):
    cann(tmp_path, operators=[])
    build(tmp_path / "libopapi_transformer.so", "aclnnOther")
    facts = run(
        "s = load()\nanswer(op=error_of(lambda: operator(s)), rt=error_of(lambda: s.aclrtFree))",
        ACLNN_KVCACHE_LIB_DIR=tmp_path,
    )
    [name, text] = facts["op"]
    assert name == "SymbolNotFoundError"
    assert text.startswith(f"{OPERATOR} is not exported by {tmp_path}/libopapi_transformer.so: this is CANN of an unkn")
    assert "ASCEND_CUSTOM_OPP_PATH" in text
    assert f"{tmp_path}/libopapi.so (environment variable ACLNN_KVCACHE_LIB_DIR): no such file" in text
    [name, text] = facts["rt"]
    assert name == "SymbolNotFoundError"
    assert text.startswith(
        f"aclrtFree is not exported by {tmp_path}/libascendcl.so: this is CANN of an unknown version"
    )
    assert "ASCEND_CUSTOM_OPP_PATH" not in text


def test_a_missing_function_names_the_version_of_cann(tmp_path):
    cann(tmp_path / "lib64", operators=[])
    info = tmp_path / "share/info/runtime/version.info"
    info.parent.mkdir(parents=True)
    info.write_text("Version=8.5.0\n")
    [_, text] = run("s = load()\nanswer(e=error_of(lambda: operator(s)))", ASCEND_HOME_PATH=tmp_path)["e"]
    assert f"{OPERATOR} is not exported by any operator library: this is CANN 8.5.0. " in text


def test_a_name_that_no_header_declares_is_no_attribute(tmp_path):
    cann(tmp_path)
    facts = run("s = load()\nanswer(e=error_of(lambda: s.aclNothing))", ACLNN_KVCACHE_LIB_DIR=tmp_path)
    assert facts["e"] == ["AttributeError", "aclNothing"]


# --- the installed header


def test_a_header_with_the_same_arguments_is_accepted(tmp_path):
    cann(tmp_path / "lib64")
    ours = (INCLUDE.parent / HEADER).read_text()
    installed = ours.replace("\naclnnStatus aclnn", "\nACLNN_API aclnnStatus aclnn")
    assert installed != ours
    (tmp_path / HEADER).parent.mkdir(parents=True)
    (tmp_path / HEADER).write_text(installed)
    assert run("answer(r=operator(load()))", ASCEND_HOME_PATH=tmp_path) == {"r": 10}


def test_a_header_with_other_arguments_is_an_error_that_shows_both(tmp_path):
    cann(tmp_path / "lib64")
    header = tmp_path / HEADER
    header.parent.mkdir(parents=True)
    header.write_text(f"aclnnStatus {OPERATOR}(void *workspace, uint64_t size, aclOpExecutor *executor, int64_t mode);")
    [name, text] = run("answer(e=error_of(lambda: operator(load())))", ASCEND_HOME_PATH=tmp_path)["e"]
    assert name == "AbiMismatchError"
    assert f"{tmp_path}/lib64/libopapi.so exports {OPERATOR}" in text
    assert str(header) in text
    assert (
        f"  in force: aclnnStatus {OPERATOR}"
        "(void *workspace, uint64_t size, aclOpExecutor *executor, int64_t mode)\n"
        f"  expected: aclnnStatus {OPERATOR}"
        "(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)\n"
    ) in text
