# SPDX-License-Identifier: Apache-2.0
"""Roots of CANN that libraries belong to, versions of packages, and whether they belong together: on trees of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from aclnn_kvcache.native import installation
from aclnn_kvcache.native.installation import Root, mapped_roots, root_of, roots_of
from aclnn_kvcache.native.packages import Package, driver, driver_folder, mismatches, packages


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- roots


@pytest.mark.parametrize(
    "library",
    [
        "lib64/libascendcl.so",
        "x86_64-linux/lib64/libruntime.so",
        "aarch64-linux/lib64/libnnopbase.so",
        "lib64/plugin/opskernel/libge_local_engine.so",
        "runtime/lib64/libascendcl.so",
        "opp/built-in/op_impl/ai_core/tbe/op_api/lib/linux/x86_64/libopapi.so",
    ],
)
def test_the_root_is_above_lib64_in_every_layout(tmp_path, library):
    assert root_of(write(tmp_path / "cann-9.1.0" / library)) == str(tmp_path / "cann-9.1.0")


def test_links_are_resolved(tmp_path):
    library = write(tmp_path / "cann-9.1.0/x86_64-linux/lib64/libascendcl.so")
    (tmp_path / "cann").symlink_to(tmp_path / "cann-9.1.0")
    (tmp_path / "cann-9.1.0/lib64").symlink_to(library.parent)
    assert root_of(tmp_path / "cann/lib64/libascendcl.so") == str(tmp_path / "cann-9.1.0")


def test_without_lib64_the_root_is_the_folder(tmp_path):
    assert root_of(write(tmp_path / "simulator/lib/libascendcl.so")) == str(tmp_path / "simulator/lib")


def test_a_file_that_is_gone_still_has_a_root():
    assert root_of("/nowhere/cann/lib64/libascendcl.so") == "/nowhere/cann"


def test_two_roots_with_their_libraries():
    files = [
        "/a/cann/lib64/libascendcl.so",
        "/usr/lib/libc.so.6",
        "/a/cann/x86_64-linux/lib64/libruntime.so",
        "/b/cann/lib64/libopapi_transformer.so",
        "/a/cann/lib64/libascendcl.so",
        "/b/cann/lib64/libhccl.so (deleted)",
    ]
    assert roots_of(files) == [
        Root("/a/cann", ("/a/cann/lib64/libascendcl.so", "/a/cann/x86_64-linux/lib64/libruntime.so")),
        Root("/b/cann", ("/b/cann/lib64/libopapi_transformer.so", "/b/cann/lib64/libhccl.so")),
    ]


@pytest.mark.parametrize(
    "name", ["libascend_hal.so", "libdcmi.so", "libgeos.so", "libacl.so.1", "libcust_opapi.so", "libtorch_npu.so"]
)
def test_libraries_of_the_driver_and_of_others_have_no_root(name):
    assert roots_of([f"/usr/local/Ascend/driver/lib64/{name}"]) == []


@pytest.mark.parametrize(
    "name",
    ["libacl_rt.so", "libacl_rt_impl.so", "libopapi.so", "libopapi_math.so", "libge_runner.so", "libruntime.so.1"],
)
def test_every_library_of_cann_counts(name):
    assert roots_of([f"/a/lib64/{name}"]) == [Root("/a", (f"/a/lib64/{name}",))]


def test_roots_of_this_process(monkeypatch):
    monkeypatch.setattr(installation, "mappings", lambda: iter([(1, 2, "/a/lib64/libnnopbase.so"), (2, 3, "/bin/x")]))
    assert mapped_roots() == [Root("/a", ("/a/lib64/libnnopbase.so",))]


def test_without_proc_nothing_is_known(monkeypatch):
    def fail():
        raise FileNotFoundError("/proc/self/maps")

    monkeypatch.setattr(installation, "mappings", fail)
    assert mapped_roots() == []


# --- packages


def package(root: Path, name: str, version: str, *lines: str) -> Path:
    text = "\n".join([f"Version={version}", "version_dir=cann", *lines])
    return write(root / "share/info" / name / "version.info", text)


def versions(root: Path) -> dict[str, str]:
    return {package.name: package.version for package in packages(root)}


def test_packages_of_a_new_installation(tmp_path):
    runtime = package(tmp_path, "runtime", "9.1.0")
    transformer = package(tmp_path, "ops_transformer", "9.1.0", 'required_package_opbase_version=">=9.1.0"')
    package(tmp_path, "opbase", "9.1.0-beta.1")
    write(tmp_path / "aarch64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=9.1.0\n")
    assert packages(tmp_path) == [
        Package("Ascend-cann-toolkit", str(tmp_path / "aarch64-linux/ascend_toolkit_install.info"), "9.1.0"),
        Package("opbase", str(tmp_path / "share/info/opbase/version.info"), "9.1.0-beta.1"),
        Package("ops-transformer", str(transformer), "9.1.0", "", {"opbase": ">=9.1.0"}),
        Package("runtime", str(runtime), "9.1.0"),
    ]


def test_packages_of_an_old_installation(tmp_path):
    write(tmp_path / "runtime/version.info", "Version=1.83.T8.0.B128\n")
    compiler = write(tmp_path / "x86_64-linux/compiler/version.info", "Version=1.83.T8.0.B128\n")
    text = "# version: 1.0\nruntime_running_version=[7.7.0.1.238:8.1.RC1]\nruntime_upgrade_version=[7.6.0:8.0.0]\n"
    config = write(tmp_path / "version.cfg", text)
    assert packages(tmp_path) == [
        Package("compiler", str(compiler), "1.83.T8.0.B128"),
        Package("runtime", str(config), "8.1.RC1"),
    ]


def test_nothing_installed_is_no_package(tmp_path):
    assert packages(tmp_path) == []
    assert packages(tmp_path / "absent") == []


def test_files_that_do_not_tell(tmp_path):
    (tmp_path / "share/info/runtime/version.info").mkdir(parents=True)
    write(tmp_path / "share/info/opbase/version.info", "version_dir=cann\n")
    (tmp_path / "version.cfg").mkdir()
    faults = {package.name: (package.version, package.fault) for package in packages(tmp_path)}
    assert faults == {
        "runtime": ("", "unreadable: Is a directory"),
        "opbase": ("", "it states no version"),
        "version.cfg": ("", "unreadable: Is a directory"),
    }


def together(**versions: str) -> list[Package]:
    return [Package(name.replace("_", "-"), "", version) for name, version in versions.items()]


@pytest.mark.parametrize(
    "found",
    [
        together(runtime="9.1.0", opbase="9.1.2", ops_transformer="9.1.0-beta.1"),
        together(runtime="9.1.0", opbase="8.5.T3.B12.x"),
        together(runtime="8.3.RC1", ops_transformer="8.3.RC2.alpha003"),
        together(runtime="9.1.0", ops_legacy="8.5.0"),
        together(runtime="9.1.0", opbase=""),
        [],
    ],
)
def test_packages_that_belong_together(found):
    assert mismatches(found) == []


def test_packages_of_two_releases():
    found = together(opbase="8.5.0", ops_transformer="9.2.0", runtime="9.1.0")
    assert mismatches(found) == [
        "runtime is 9.1.0, but opbase is 8.5.0",
        "runtime is 9.1.0, but ops-transformer is 9.2.0",
    ]


@pytest.mark.parametrize(
    ("wanted", "version", "meets"),
    [
        (">=9.1.0", "9.1.0", True),
        (">=9.1.0", "9.1.0-beta.1", True),
        (">=9.1.0", "9.1.1", True),
        (">=9.1.1", "9.1.0", False),
        (">=9.0.0,<9.1.0", "9.1.0", False),
        (">=9.0.0, <9.2.0", "9.1.0", True),
        ("==9.1.0", "9.1.0", True),
        ("=9.1.1", "9.1.0", False),
        ("<=9.0.9", "9.1.0", False),
        (">9.1.0", "9.1.0", False),
        ("any", "9.1.0", True),
        (">=9.1.0", "unreadable", True),
    ],
)
def test_what_a_package_asks_for(wanted, version, meets):
    found = [
        Package("opbase", "", "9.1.0", "", {"metadef": wanted, "absent": ">=99.0.0"}),
        Package("metadef", "", version),
    ]
    expected = [] if meets else [f"opbase 9.1.0 asks for metadef {wanted}, but metadef is {version}"]
    assert mismatches(found) == expected


# --- the driver


def test_the_driver_where_the_installer_put_it(tmp_path):
    write(tmp_path / "etc/ascend_install.info", "UserName=u\nDriver_Install_Path_Param=/opt/Ascend\n")
    info = write(tmp_path / "opt/Ascend/driver/version.info", "package_version=1\nVersion=24.1.rc3\n")
    assert driver_folder(tmp_path) == tmp_path / "opt/Ascend/driver"
    assert driver(tmp_path) == Package("driver", str(info), "24.1.rc3")


def test_the_driver_in_the_default_folder(tmp_path):
    info = write(tmp_path / "usr/local/Ascend/driver/version.info", "Version=25.0\n")
    assert driver(tmp_path) == Package("driver", str(info), "25.0")


def test_no_driver_and_one_that_does_not_tell(tmp_path):
    path = tmp_path / "usr/local/Ascend/driver/version.info"
    assert driver(tmp_path) == Package("driver", str(path), "", "no such file")
    path.mkdir(parents=True)
    assert driver(tmp_path).fault == "unreadable: Is a directory"
