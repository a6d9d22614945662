# SPDX-License-Identifier: Apache-2.0
"""The prototype in force: the header beside an operator library, a stated revision, or a refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from aclnn_kvcache.errors import AbiMismatchError
from aclnn_kvcache.native.abi import OUR_HEADER, Passed, bind
from aclnn_kvcache.native.prototypes import declarations
from aclnn_kvcache.native.revisions import QKV, REVISIONS

SCATTER = declarations().prototypes["aclnnScatterPaKvCacheWithKScale"]
FUSED = declarations().prototypes[QKV]
HEADERS = {SCATTER: "aclnn_scatter_pa_kv_cache_with_k_scale.h", FUSED: "aclnn_qkv_rms_norm_rope_cache_with_k_scale.h"}
PHASE_2 = "void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream"


def install(root: Path, header: str, arguments: str = PHASE_2) -> Path:
    path = root / header
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"aclnnStatus {SCATTER.name}({arguments});")
    return path


def install_fused(root: Path, text: str) -> str:
    path = root / "include" / "aclnnop" / HEADERS[FUSED]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(root / "lib64" / "libopapi.so")


HEADER = HEADERS[SCATTER]


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
def test_the_header_is_found_from_the_library(tmp_path: Path, library: str, header: str) -> None:
    path = install(tmp_path, header)
    binding = bind(SCATTER, str(tmp_path / library))
    assert binding.source == f"the installed header {path}"
    assert binding.is_ours
    assert binding.differences == ()


def test_the_nearest_header_decides(tmp_path: Path) -> None:
    near = install(tmp_path, f"x86_64-linux/include/aclnnop/{HEADER}")
    install(tmp_path, f"include/aclnnop/{HEADER}", "void *workspace")
    assert str(near) in bind(SCATTER, str(tmp_path / "x86_64-linux/lib64/libopapi.so")).source


@pytest.mark.parametrize(
    ("arguments", "obstacle"),
    [
        ("void *workspace, uint64_t workspaceSize, aclOpExecutor *executor", "stream is missing"),
        (f"{PHASE_2}, bool more", "more (bool) is not known here and may not be NULL"),
        (f"{PHASE_2}, aclTensor *more", "more (aclTensor *) is not known here and may not be NULL"),
        (f"{PHASE_2}, bool moreOptional", "moreOptional (bool) is not known here"),
        (PHASE_2.replace("uint64_t", "int64_t"), "workspaceSize is int64_t, not uint64_t"),
        (PHASE_2.replace("aclOpExecutor", "aclTensor"), "executor is aclTensor *, not aclOpExecutor *"),
    ],
)
def test_other_arguments_are_refused_by_name(tmp_path: Path, arguments: str, obstacle: str) -> None:
    install(tmp_path, f"include/aclnnop/{HEADER}", arguments)
    with pytest.raises(AbiMismatchError) as caught:
        bind(SCATTER, str(tmp_path / "lib64/libopapi.so"))
    assert obstacle in str(caught.value)
    assert "Nothing is called" in str(caught.value)


def test_another_result_is_refused(tmp_path: Path) -> None:
    path = install(tmp_path, f"include/aclnnop/{HEADER}")
    path.write_text(path.read_text().replace("aclnnStatus", "int64_t"))
    with pytest.raises(AbiMismatchError, match="another result"):
        bind(SCATTER, str(tmp_path / "lib64/libopapi.so"))


def test_arguments_are_matched_by_name_in_any_order_with_or_without_suffixes(tmp_path: Path) -> None:
    install(
        tmp_path,
        f"include/aclnnop/{HEADER}",
        "aclrtStream streamOptional, aclOpExecutor *executorRef, aclTensor *hintOptional, void *workspace, "
        "uint64_t workspaceSize",
    )
    binding = bind(SCATTER, str(tmp_path / "lib64/libopapi.so"))
    assert binding.passed == (Passed(3), Passed(2), Passed(None), Passed(0), Passed(1))
    assert binding.arrange((10, 11, 12, 13)) == [13, 12, None, 10, 11]
    assert binding.differences == (
        "hintOptional (aclTensor *) is theirs alone and gets NULL",
        "the arguments stand in another order",
    )


def test_a_type_that_we_do_not_know_is_a_mismatch_that_names_header_library_and_type(tmp_path: Path) -> None:
    header = install(tmp_path, f"include/aclnnop/{HEADER}", "aclMystery *workspace")
    library = tmp_path / "lib64" / "libopapi.so"
    with pytest.raises(AbiMismatchError) as caught:
        bind(SCATTER, str(library))
    assert [part for part in (str(header), str(library), "'aclMystery'") if part not in str(caught.value)] == []


def test_a_header_without_the_function_is_not_passed_over(tmp_path: Path) -> None:
    install(tmp_path, f"include/aclnnop/{HEADER}").write_text("aclnnStatus aclnnOther(void *workspace);")
    with pytest.raises(AbiMismatchError, match=f"has no declaration of {SCATTER.name}"):
        bind(SCATTER, str(tmp_path / "lib64/libopapi.so"))


def test_without_a_header_a_function_that_never_changed_has_our_arguments(tmp_path: Path) -> None:
    binding = bind(SCATTER, str(tmp_path / "lib64/libopapi.so"))
    assert (binding.source, binding.is_ours) == (OUR_HEADER, True)


def test_a_library_that_the_loader_found_by_name_has_no_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, f"include/aclnnop/{HEADER}", "void *workspace")
    monkeypatch.chdir(tmp_path)
    assert bind(SCATTER, "libopapi.so").source == OUR_HEADER


def test_without_header_and_statement_the_fused_operator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AbiMismatchError) as caught:
        bind(FUSED, str(tmp_path / "lib64/libopapi.so"))
    for part in ("3 argument lists", "qkv_abi='A' or 'B' or 'C'", "ACLNN_KVCACHE_QKV_ABI", "Nothing is called"):
        assert part in str(caught.value)


@pytest.mark.parametrize(("revision", "count"), [("A", 20), ("B", 23), ("C", 24)])
def test_each_revision_has_its_arguments(tmp_path: Path, revision: str, count: int) -> None:
    binding = bind(FUSED, str(tmp_path / "lib64/libopapi.so"), revision)
    assert binding.source == f"revision {revision!r}, as stated"
    assert len(binding.prototype.parameters) == count
    assert (binding.revision, binding.is_ours, binding.differences) == (revision, True, ())
    assert binding.arrange(tuple(range(count))) == list(range(count))


@pytest.mark.parametrize("revision", ["A", "B", "C"])
def test_an_installed_header_tells_the_revision(tmp_path: Path, revision: str) -> None:
    text = REVISIONS[QKV][revision] or f"{FUSED};"
    library = install_fused(tmp_path, text)
    binding = bind(FUSED, library)
    assert (binding.revision, binding.is_ours) == (revision, True)
    assert len(binding.prototype.parameters) == {"A": 20, "B": 23, "C": 24}[revision]
    assert bind(FUSED, library, revision).source.startswith("the installed header")


@pytest.mark.parametrize(
    ("base", "dropped", "revision", "passed"),
    [
        # What B brought counts as a whole: with a part of it alone this is A, with arguments that may be NULL or not.
        ("B", ["const aclIntArray *mropeSectionOptional,", "const char *qQuantMode,"], "A", (11, None, 12)),
        ("C", ["const char *qQuantMode,"], "A", ()),
        ("C", ["const char *kQuantMode,"], "B", (11, 12, 13)),
    ],
)
def test_a_header_between_two_revisions_is_of_the_older(
    tmp_path: Path, base: str, dropped: list[str], revision: str, passed: tuple[int | None, ...]
) -> None:
    text = (REVISIONS[QKV][base] or "").replace("\n", " ")
    for part in dropped:
        assert part in text
        text = text.replace(part, "")
    library = install_fused(tmp_path, text)
    if not passed:
        with pytest.raises(AbiMismatchError, match=r"kQuantMode \(char \*\) is not known here and may not be NULL"):
            bind(FUSED, library)
        return
    binding = bind(FUSED, library)
    assert binding.revision == revision
    assert tuple(p.position for p in binding.passed[11:14]) == passed


def test_a_function_with_one_argument_list_has_no_revision(tmp_path: Path) -> None:
    assert bind(SCATTER, str(tmp_path / "lib64/libopapi.so"), "C").revision is None


def test_a_statement_that_the_header_contradicts_is_refused(tmp_path: Path) -> None:
    library = install_fused(tmp_path, REVISIONS[QKV]["B"] or "")
    with pytest.raises(AbiMismatchError, match="revision 'A' was stated, but the header installed with"):
        bind(FUSED, library, "A")
