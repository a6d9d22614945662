# SPDX-License-Identifier: Apache-2.0
"""Where libraries are looked for: the order, the reasons, what is skipped. No library file is opened."""

import builtins
import os
import platform
from pathlib import Path

import pytest

import aclnn_kvcache
from aclnn_kvcache.native.discovery import Folder, folders, later_revisions, operator_libraries

RELATIVE = "a relative path is never searched"
ARCH = f"{platform.machine()}-linux"
LOADER = ("", "the system loader", "")

ROOTS = ["/usr/local/Ascend/cann", "/opt/Ascend/cann", "/usr/local/Ascend/ascend-toolkit/latest"]
HOME_ROOTS = ["/home/u/Ascend/cann", "/home/u/Ascend/ascend-toolkit/latest"]


def lib64(*roots, reason):
    """The two folders of each root, in order."""
    return [(f"{root}/{folder}", reason, "") for root in roots for folder in ("lib64", f"{ARCH}/lib64")]


def default_roots():
    return lib64(*ROOTS, reason="default install root")


def found(backend="cann", library_dir=None, **environ):
    return [folder[:3] for folder in folders(backend, library_dir, environ)]


EVERYTHING = {
    "ACLNN_KVCACHE_LIB_DIR": "/own",
    "ASCEND_HOME_PATH": "/home_path",
    "ASCEND_TOOLKIT_HOME": "/toolkit",
    "LD_LIBRARY_PATH": "/ld1:/ld2",
    "HOME": "/home/u",
}


def variables(*names):
    return {name: EVERYTHING[name] for name in names}


# --- folders


@pytest.mark.parametrize("backend", ["auto", "cann", "simulator"])
def test_library_dir_is_the_only_folder_whatever_the_environment_says(backend):
    assert found(backend, "/given", **EVERYTHING) == [("/given", "the library_dir argument", "")]
    assert found(backend, Path("/given"), **EVERYTHING) == [("/given", "the library_dir argument", "")]


@pytest.mark.parametrize("backend", ["auto", "cann", "simulator"])
def test_our_variable_is_the_only_folder_after_that(backend):
    assert found(backend, **EVERYTHING) == [("/own", "environment variable ACLNN_KVCACHE_LIB_DIR", "")]


@pytest.mark.parametrize("backend", ["auto", "cann"])
def test_without_any_variable_the_default_roots_and_the_loader(backend):
    assert found(backend) == [*default_roots(), LOADER]


@pytest.mark.parametrize("backend", ["auto", "cann"])
def test_an_empty_variable_is_no_variable(backend):
    assert found(backend, **dict.fromkeys(EVERYTHING, "")) == [*default_roots(), LOADER]


def test_home_adds_its_roots_between_the_others():
    roots = ["/usr/local/Ascend/cann", HOME_ROOTS[0], "/opt/Ascend/cann", ROOTS[2], HOME_ROOTS[1]]
    assert found(HOME="/home/u") == [*lib64(*roots, reason="default install root"), LOADER]


def test_the_installation_s_variables_go_before_the_default_roots_and_the_loader_s_after_them():
    assert found(**variables("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH")) == [
        *lib64("/home_path", reason="environment variable ASCEND_HOME_PATH"),
        *lib64("/toolkit", reason="environment variable ASCEND_TOOLKIT_HOME"),
        *default_roots(),
        ("/ld1", "an entry of LD_LIBRARY_PATH", ""),
        ("/ld2", "an entry of LD_LIBRARY_PATH", ""),
        LOADER,
    ]


@pytest.mark.parametrize("name", ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"])
def test_one_of_the_installation_s_variables(name):
    expected = lib64(EVERYTHING[name], reason=f"environment variable {name}")
    assert found(**variables(name)) == [*expected, *default_roots(), LOADER]


def test_the_simulator_is_looked_for_in_the_package_only():
    environ = {name: value for name, value in EVERYTHING.items() if name != "ACLNN_KVCACHE_LIB_DIR"}
    assert found("simulator", **environ) == [
        (f"{package}/simulator/lib", "the simulator bundled with this package", "")
        for package in aclnn_kvcache.__path__
    ]


@pytest.mark.parametrize("path", ["lib", ".", "../lib", ""])
def test_a_relative_library_dir_is_skipped_with_its_reason_and_nothing_else_is_tried(path):
    assert found("auto", path, **EVERYTHING) == [(path, "the library_dir argument", RELATIVE)]


def test_relative_variables_are_skipped_with_their_reason():
    assert found(ACLNN_KVCACHE_LIB_DIR="lib") == [("lib", "environment variable ACLNN_KVCACHE_LIB_DIR", RELATIVE)]
    assert found(ASCEND_HOME_PATH="cann")[:2] == [
        (f"cann/{folder}", "environment variable ASCEND_HOME_PATH", RELATIVE) for folder in ("lib64", f"{ARCH}/lib64")
    ]


@pytest.mark.parametrize("value", ["/a::/b", ":/a", "/a:", "/a:lib", "/a:."])
def test_the_loader_is_not_asked_where_it_would_search_the_working_directory(value):
    after_roots = found(LD_LIBRARY_PATH=value)[len(default_roots()) :]
    entries = value.split(":")
    assert after_roots == [
        *((e, "an entry of LD_LIBRARY_PATH", "" if e.startswith("/") else RELATIVE) for e in entries),
        ("", "the system loader", "LD_LIBRARY_PATH has a relative or empty entry"),
    ]


@pytest.mark.parametrize("library_dir", [None, "lib", "."])
def test_every_path_is_absolute_or_skipped(library_dir):
    environ = {"ASCEND_HOME_PATH": ".", "ASCEND_TOOLKIT_HOME": "x", "HOME": "h", "LD_LIBRARY_PATH": ":.:/ok"}
    for folder in folders("cann", library_dir, environ):
        assert os.path.isabs(folder.path) or folder.skipped


# --- operator libraries


def make(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def custom(package):
    return make(package / "op_api" / "lib" / "libcust_opapi.so")


def candidates(folder=Folder("/lib64", "reason"), **environ):  # noqa: B008
    return [tuple(candidate) for candidate in operator_libraries(folder, environ)]


INSTALLED = [
    ("/lib64/libcust_opapi.so", "reason", ""),
    ("/lib64/libopapi_transformer.so", "reason", ""),
    ("/lib64/libopapi.so", "reason", ""),
]


def test_without_custom_packages_the_folder_s_libraries():
    assert candidates() == INSTALLED


def test_other_split_libraries_are_sorted_between_transformer_and_the_big_one(tmp_path):
    for name in ("libopapi_nn.so", "libopapi_math.so", "libopapi_transformer.so", "libopapi.so", "libopapi_x.so.1"):
        make(tmp_path / name)
    names = [Path(path).name for path, _, _ in candidates(Folder(str(tmp_path), "reason"))]
    assert names == [
        "libcust_opapi.so",
        "libopapi_transformer.so",
        "libopapi_math.so",
        "libopapi_nn.so",
        "libopapi.so",
    ]


def test_the_loader_gets_bare_names():
    assert candidates(Folder("", "the system loader")) == [
        ("libopapi_transformer.so", "the system loader", ""),
        ("libopapi.so", "the system loader", ""),
    ]


def test_custom_packages_go_first_in_cann_s_order(tmp_path):
    listed = [custom(tmp_path / name) for name in ("b", "a")]
    vendors = tmp_path / "opp" / "vendors"
    by_priority = [custom(vendors / name) for name in ("zeta", "alpha")]
    config = make(
        vendors / "config.ini", "# load_priority=no\nother=1\nload_priority=zeta, alpha,,gone\nload_priority=x\n"
    )
    gone = str(vendors / "gone" / "op_api" / "lib" / "libcust_opapi.so")
    assert candidates(ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/b::{tmp_path}/a:", ASCEND_OPP_PATH=str(tmp_path / "opp")) == [
        *((path, "environment variable ASCEND_CUSTOM_OPP_PATH", "") for path in listed),
        *((path, f"load_priority in {config}", "") for path in [*by_priority, gone]),
        *INSTALLED,
    ]


def test_custom_packages_are_real_paths(tmp_path):
    real = custom(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert candidates(ASCEND_CUSTOM_OPP_PATH=str(tmp_path / "link"))[0][0] == real


@pytest.mark.parametrize("text", ["", "load_priority=\n", "priority=a\n", " load_priority=a\n"])
def test_a_config_without_priorities_adds_nothing(tmp_path, text):
    make(tmp_path / "vendors" / "config.ini", text)
    assert candidates(ASCEND_OPP_PATH=str(tmp_path)) == INSTALLED


def test_no_config_adds_nothing(tmp_path):
    assert candidates(ASCEND_OPP_PATH=str(tmp_path)) == INSTALLED


def test_relative_packages_are_skipped_with_their_reason(tmp_path, monkeypatch):
    custom(tmp_path / "pkg")
    custom(tmp_path / "opp" / "vendors" / "v")
    make(tmp_path / "opp" / "vendors" / "config.ini", "load_priority=v\n")
    monkeypatch.chdir(tmp_path)
    assert candidates(ASCEND_CUSTOM_OPP_PATH="pkg", ASCEND_OPP_PATH="opp") == [
        ("pkg/op_api/lib/libcust_opapi.so", "environment variable ASCEND_CUSTOM_OPP_PATH", RELATIVE),
        ("opp/vendors/config.ini", "environment variable ASCEND_OPP_PATH", RELATIVE),
        *INSTALLED,
    ]


@pytest.mark.parametrize(
    ("owner", "user", "skipped"),
    [
        (1000, 1000, ""),
        (0, 1000, ""),
        (0, 0, ""),
        (1001, 1000, "owned by user 1001, neither root nor this user"),
        (1001, 0, "owned by user 1001, neither root nor this user"),
    ],
)
def test_a_custom_library_of_another_user_is_skipped_as_cann_does(tmp_path, monkeypatch, owner, user, skipped):
    path = custom(tmp_path)
    real_stat = os.stat

    def stat(target, *args, **options):
        result = list(real_stat(target, *args, **options))
        if str(target) == path:
            result[4] = owner
        return os.stat_result(result)

    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert candidates(ASCEND_CUSTOM_OPP_PATH=str(tmp_path))[0] == (
        path,
        "environment variable ASCEND_CUSTOM_OPP_PATH",
        skipped,
    )


@pytest.mark.parametrize(
    ("backend", "library_dir", "environ"),
    [("auto", "/given", {}), ("auto", None, {"ACLNN_KVCACHE_LIB_DIR": "/given"}), ("simulator", None, {})],
)
def test_no_custom_package_is_added_to_a_folder_that_was_named(tmp_path, backend, library_dir, environ):
    custom(tmp_path)
    [folder, *_] = folders(backend, library_dir, environ)
    names = [path for path, _, _ in candidates(folder, ASCEND_CUSTOM_OPP_PATH=str(tmp_path))]
    assert names == [f"{folder.path}/{n}" for n in ("libcust_opapi.so", "libopapi_transformer.so", "libopapi.so")]


def test_no_library_is_opened_and_nothing_under_the_working_directory_is_looked_at(tmp_path, monkeypatch):
    custom(tmp_path / "pkg")
    for name in ("libascendcl.so", "libnnopbase.so", "libopapi.so"):
        make(tmp_path / "lib64" / name)
    monkeypatch.chdir(tmp_path / "lib64")
    monkeypatch.setattr(builtins, "open", lambda *a, **k: pytest.fail(f"opened {a}"))
    environ = {"ASCEND_HOME_PATH": str(tmp_path), "ASCEND_CUSTOM_OPP_PATH": str(tmp_path / "pkg")}
    for folder in folders("cann", None, environ):
        for candidate in operator_libraries(folder, environ):
            assert os.path.isabs(candidate.path) or not folder.path


# --- the simulator's revisions


@pytest.mark.parametrize(("revision", "inside"), [(None, ""), ("A", ""), ("B", "/rev_b"), ("C", "/rev_c")])
def test_the_bundled_simulator_has_a_folder_for_each_revision(revision, inside):
    package = Path(aclnn_kvcache.__path__[0])
    bundled = [folder.path for folder in folders("simulator", None, {}, revision)]
    assert bundled[0] == f"{package}/simulator/lib{inside}"
    assert all(path.endswith(f"/simulator/lib{inside}") for path in bundled)


def test_a_folder_named_by_our_variable_may_hold_the_revisions_inside(tmp_path):
    environ = {"ACLNN_KVCACHE_LIB_DIR": str(tmp_path)}
    (tmp_path / "rev_c").mkdir()
    reason = "environment variable ACLNN_KVCACHE_LIB_DIR"
    for backend, revision, path in (
        ("simulator", "C", tmp_path / "rev_c"),
        ("simulator", "B", tmp_path),  # which may be the folder of that revision itself
        ("simulator", "A", tmp_path),
        ("cann", "C", tmp_path),
        ("auto", "C", tmp_path),
    ):
        assert folders(backend, None, environ, revision) == [Folder(str(path), reason, exclusive=True)]
    assert folders("simulator", tmp_path, environ, "C")[0].path == str(tmp_path)


def test_later_revisions_are_those_inside_the_folder(tmp_path):
    assert later_revisions(str(tmp_path)) == later_revisions(str(tmp_path / "nothing")) == []
    (tmp_path / "rev_c").mkdir()
    (tmp_path / "cann_8_5").mkdir()
    assert later_revisions(str(tmp_path)) == ["C"]
    (tmp_path / "rev_b").mkdir()
    assert later_revisions(str(tmp_path)) == ["B", "C"]


@pytest.mark.parametrize("backend", ["auto", "cann"])
def test_a_revision_changes_nothing_for_cann(backend):
    assert folders(backend, None, EVERYTHING, "C") == folders(backend, None, EVERYTHING)
