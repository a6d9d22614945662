# SPDX-License-Identifier: Apache-2.0
"""The header beside an operator library: where it is looked for, and what is read from it."""

from pathlib import Path

import pytest

from aclnn_kvcache.errors import AbiMismatchError
from aclnn_kvcache.native.abi import installed_prototype
from aclnn_kvcache.native.prototypes import INCLUDE, declarations

NAME = "aclnnScatterPaKvCacheWithKScale"
HEADER = "aclnn_scatter_pa_kv_cache_with_k_scale.h"
OURS = declarations().prototypes[NAME]
TEXT = f"aclnnStatus {NAME}(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream);"


def install(root, header, text=TEXT):
    path = root / header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("library", "header"),
    [
        ("lib64/libopapi.so", f"include/aclnnop/{HEADER}"),
        ("x86_64-linux/lib64/libopapi_transformer.so", f"x86_64-linux/include/aclnnop/{HEADER}"),
        ("x86_64-linux/lib64/libopapi_transformer.so", f"include/aclnnop/{HEADER}"),
        ("vendors/v/op_api/lib/libcust_opapi.so", f"vendors/v/op_api/include/{HEADER}"),
        ("vendors/v/op_api/lib/libcust_opapi.so", f"vendors/v/op_api/include/aclnnop/{HEADER}"),
    ],
)
def test_the_header_is_found_from_the_library(tmp_path, library, header):
    path = install(tmp_path, header)
    found = installed_prototype(OURS, str(tmp_path / library))
    assert found.header == str(path)
    assert found.types() == OURS.types()


def test_the_nearest_header_decides(tmp_path):
    near = install(tmp_path, f"x86_64-linux/include/aclnnop/{HEADER}", f"aclnnStatus {NAME}(void *workspace);")
    install(tmp_path, f"include/aclnnop/{HEADER}")
    found = installed_prototype(OURS, str(tmp_path / "x86_64-linux/lib64/libopapi.so"))
    assert (found.header, len(found.parameters)) == (str(near), 1)


def test_our_own_header_agrees_with_itself():
    beside = INCLUDE.parent / "simulator" / "lib" / "libopapi.so"
    for suffix in ("", "GetWorkspaceSize"):
        ours = declarations().prototypes[NAME + suffix]
        assert installed_prototype(ours, str(beside)).types() == ours.types()


@pytest.mark.parametrize(
    "arguments",
    [
        "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor",
        "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream, bool more",
        "void *workspace, int64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream",
        "uint64_t workspaceSize, void *workspace, aclOpExecutor *executor, aclrtStream stream",
        "void *workspace, uint64_t workspaceSize, aclTensor *executor, aclrtStream stream",
    ],
)
def test_other_arguments_are_seen(tmp_path, arguments):
    install(tmp_path, f"include/aclnnop/{HEADER}", f"aclnnStatus {NAME}({arguments});")
    assert installed_prototype(OURS, str(tmp_path / "lib64/libopapi.so")).types() != OURS.types()


def test_a_type_that_we_do_not_know_is_a_mismatch_that_names_header_library_and_type(tmp_path):
    header = install(tmp_path, f"include/aclnnop/{HEADER}", f"aclnnStatus {NAME}(aclMystery *workspace);")
    library = tmp_path / "lib64" / "libopapi.so"
    with pytest.raises(AbiMismatchError) as info:
        installed_prototype(OURS, str(library))
    assert [part for part in (str(header), str(library), "'aclMystery'") if part not in str(info.value)] == []


def test_without_a_header_nothing_is_said(tmp_path):
    assert installed_prototype(OURS, str(tmp_path / "lib64/libopapi.so")) is None


def test_a_header_without_the_function_is_not_passed_over(tmp_path):
    install(tmp_path, f"include/aclnnop/{HEADER}", "aclnnStatus aclnnOther(void *workspace);")
    with pytest.raises(AbiMismatchError, match=f"has no declaration of {NAME}"):
        installed_prototype(OURS, str(tmp_path / "lib64/libopapi.so"))


def test_a_library_that_the_loader_found_by_name_has_no_header(tmp_path, monkeypatch):
    install(tmp_path, f"include/aclnnop/{HEADER}")
    monkeypatch.chdir(tmp_path)
    assert installed_prototype(OURS, "libopapi.so") is None


def test_only_operators_are_compared(tmp_path):
    install(tmp_path, "include/acl/acl.h", "aclError aclInit(int more);")
    assert (
        installed_prototype(declarations().prototypes["aclInit"], str(Path(tmp_path, "lib64/libascendcl.so"))) is None
    )
