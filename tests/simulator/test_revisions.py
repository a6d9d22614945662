# SPDX-License-Identifier: Apache-2.0
"""One symbol, three argument lists: fake libraries, one a revision, look at each argument that reaches them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from revision_fakes import (
    EXECUTOR,
    PHASE_2,
    QKV,
    QKV_HEADER,
    REVISIONS,
    WORKSPACE,
    A,
    B,
    copy_libraries,
    declarations,
    install,
    names,
    recorded,
    run,
    seen,
)

VARIABLE = "ACLNN_KVCACHE_QKV_ABI"
FLOAT, INT8, INT32, BF16, E4M3FN, E8M0 = 0, 2, 3, 27, 36, 37
TENSORS: dict[str, tuple[str, list[int], int]] = {
    "qkv": ("qkv", [5, 20, 128], BF16),
    "qGamma": ("q_gamma", [128], FLOAT),
    "kGamma": ("k_gamma", [128], FLOAT),
    "cosSin": ("cos_sin", [32, 128], FLOAT),
    "slotMapping": ("slot_mapping", [5], INT32),
    "kCache": ("k_cache", [3, 2, 4, 128], E4M3FN),
    "vCache": ("v_cache", [3, 2, 4, 128], E4M3FN),
    "kScaleCache": ("k_scale_cache", [3, 2, 4, 1], FLOAT),
    "queryStartLoc": ("query_start_loc", [3], INT32),
    "seqLens": ("seq_lens", [2], INT32),
    "rotation": ("rotation", [128, 128], BF16),
    "vScale": ("v_scale", [2], FLOAT),
    "qOut": ("q_out", [16, 5, 128], E4M3FN),
    "qScale": ("q_scale", [16, 5], FLOAT),
}
"""Parameters of the C function, without suffixes: the argument of ours, its shape and its dtype in CANN's numbers."""

THEIRS = {"mropePosition": None, "mropeSection": None, "qQuantMode": None, "kQuantMode": None}
"""What the parameters that only B and C have must get for a plain RoPE call."""

POSITIONED = {"queryStartLoc": None, "seqLens": None, "layoutQOut": "TND"}
SCENES: dict[str, tuple[dict[str, tuple[list[int], int]], dict[str, Any]]] = {
    "M-RoPE": (
        {
            "mropePosition": ([5, 3], INT32),
            "kCache": ([3, 2, 4, 128], INT8),
            "vScale": ([2, 128], FLOAT),
            "qOut": ([5, 16, 128], BF16),
        },
        {**POSITIONED, "mropeSection": [11, 20, 20], "qQuantMode": "NoQuant", "kQuantMode": None, "qScale": None},
    ),
    "Mx": (
        {
            "mropePosition": ([5, 3], INT32),
            "kScaleCache": ([3, 2, 4, 4], E8M0),
            "vScale": ([2, 128], FLOAT),
            "qOut": ([5, 16, 128], E4M3FN),
            "qScale": ([5, 16, 4], E8M0),
        },
        {**POSITIONED, "mropeSection": [24, 20, 20], "qQuantMode": "Mx", "kQuantMode": "Mx", "rotation": None},
    ),
}
"""Of the other scenes the tensors and the values that differ from a plain RoPE call."""

CALL = "with opened() as session: answer(**call(session))"


def plain(name: str) -> str:
    return name.removesuffix("Ref").removesuffix("Optional")


def expected(parameters: str, addresses: dict[str, int], **others: Any) -> dict[str, Any]:
    """What a fake with these parameters must get in a call with arrays at these addresses; by parameter."""
    assert len(set(addresses.values())) == len(addresses)
    values = {
        name: seen(addresses[ours], shape, dtype) for name, (ours, shape, dtype) in TENSORS.items() if ours in addresses
    }
    values |= {"headNums": [16, 2, 2], "layoutQkv": "TND", "layoutQOut": "NTD", "epsilon": float(np.float32(3e-5))}
    values |= {**THEIRS, **others}
    return {name: values[plain(name)] for name in names(parameters) if name not in ("workspaceSize", "executor")}


def assert_passed(root: Path, parameters: str, addresses: dict[str, int], **others: Any) -> None:
    """One whole call reached the fake, each argument where it belongs."""
    first, second = recorded(root)
    arguments = first["arguments"]
    assert list(arguments) == names(parameters)
    outputs = arguments.pop("workspaceSize"), arguments.pop("executor")
    assert all(outputs)
    assert outputs[0] != outputs[1]
    assert (first["function"], arguments) == (
        f"{QKV}GetWorkspaceSize",
        expected(parameters, addresses, **others),
    )
    assert second["function"] == QKV
    workspace, stream = second["arguments"].pop("workspace"), second["arguments"].pop("stream")
    assert second["arguments"] == {"workspaceSize": WORKSPACE, "executor": EXECUTOR}
    assert workspace
    assert workspace not in addresses.values()
    assert stream


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_lists_are_those_of_the_contract(revision: str) -> None:
    positions = {name: position for position, name in enumerate(names(REVISIONS[revision]))}
    assert (len(positions), positions["epsilon"]) == {"A": (20, 15), "B": (23, 16), "C": (24, 16)}[revision]


@pytest.mark.parametrize("stated", [False, True], ids=["header alone", "and stated"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_installed_header_tells_the_revision(tmp_path: Path, revision: str, stated: bool) -> None:
    parameters = REVISIONS[revision]
    folder = install(tmp_path, parameters, declarations(QKV, parameters))
    statement = f"qkv_abi={revision!r}" if stated else ""
    code = f"""
        with opened({statement}) as session:
            path, binding = session._library.binding({QKV + "GetWorkspaceSize"!r})
            answer(addresses=call(session), path=path, source=binding.source)
    """
    facts = run(tmp_path, folder, code)
    assert_passed(tmp_path, parameters, facts["addresses"])
    assert facts["path"] == str(folder / "libopapi.so")
    assert facts["source"] == f"the installed header {tmp_path / QKV_HEADER}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_can_be_stated_by_argument(tmp_path: Path, revision: str) -> None:
    folder = install(tmp_path, REVISIONS[revision])
    addresses = run(tmp_path, folder, f"with opened(qkv_abi={revision!r}) as session: answer(**call(session))")
    assert_passed(tmp_path, REVISIONS[revision], addresses)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_can_be_stated_by_the_environment(tmp_path: Path, revision: str) -> None:
    folder = install(tmp_path, REVISIONS[revision])
    addresses = run(tmp_path, folder, CALL, **{VARIABLE: revision})
    assert_passed(tmp_path, REVISIONS[revision], addresses)


def test_the_argument_goes_before_the_environment(tmp_path: Path) -> None:
    folder = install(tmp_path, B)
    code = "with opened(qkv_abi='B') as session: answer(**call(session))"
    assert_passed(tmp_path, B, run(tmp_path, folder, code, **{VARIABLE: "C"}))


def test_an_empty_variable_states_nothing(tmp_path: Path) -> None:
    folder = install(tmp_path, B, declarations(QKV, B))
    assert_passed(tmp_path, B, run(tmp_path, folder, CALL, **{VARIABLE: ""}))


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("layouts", "passed"),
    [
        ("layout_qkv=None, layout_q_out=None", {"layoutQkv": None, "layoutQOut": None}),
        ("layout_qkv='', layout_q_out=''", {"layoutQkv": "", "layoutQOut": ""}),
    ],
    ids=["NULL", "empty"],
)
def test_layouts_left_to_their_defaults(tmp_path: Path, revision: str, layouts: str, passed: dict[str, Any]) -> None:
    folder = install(tmp_path, REVISIONS[revision])
    code = f"with opened(qkv_abi={revision!r}) as session: answer(**call(session, {layouts}))"
    assert_passed(tmp_path, REVISIONS[revision], run(tmp_path, folder, code), **passed)


# --- M-RoPE and Mx


MADE = {
    "M-RoPE": {"q_out": [[5, 16, 128], "bfloat16"], "q_scale": False},
    "Mx": {"q_out": [[5, 16, 128], "float8_e4m3fn"], "q_scale": [[5, 16, 4], "float8_e8m0fnu"]},
}
HAVE = [("B", "M-RoPE"), ("C", "M-RoPE"), ("C", "Mx")]
HOW = ["header", "argument", "environment"]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("revision", "scene"), HAVE)
def test_every_argument_of_the_other_scenes(tmp_path: Path, revision: str, scene: str, how: str) -> None:
    parameters = REVISIONS[revision]
    folder = install(tmp_path, parameters, declarations(QKV, parameters) if how == "header" else None)
    statement = f"qkv_abi={revision!r}" if how == "argument" else ""
    code = f"with opened({statement}) as session: answer(**call_scene(session, {scene!r}), abi=session.qkv_abi)"
    facts = run(tmp_path, folder, code, **({VARIABLE: revision} if how == "environment" else {}))
    tensors, values = SCENES[scene]
    ours = {name: TENSORS[name][0] if name in TENSORS else "mrope_position" for name in tensors}
    others = {name: seen(facts["addresses"][ours[name]], *tensors[name]) for name in tensors}
    assert_passed(tmp_path, parameters, facts["addresses"], **{**others, **values})
    assert (facts["made"], facts["abi"]) == (MADE[scene], revision)


@pytest.mark.parametrize(("revision", "scene"), HAVE)
def test_the_other_scenes_with_arrays_on_the_host(tmp_path: Path, revision: str, scene: str) -> None:
    code = f"with opened(qkv_abi={revision!r}) as session: answer(**call_scene(session, {scene!r}, 'host'))"
    facts = run(tmp_path, install(tmp_path, REVISIONS[revision]), code)
    assert facts["made"] == MADE[scene]
    arguments = recorded(tmp_path)[0]["arguments"]
    tensors, values = SCENES[scene]
    found = {plain(name): value for name, value in arguments.items()}
    assert {name: found[name] for name in values if name in found} == {n: v for n, v in values.items() if n in found}
    assert {name: (found[name]["shape"], found[name]["dtype"]) for name in tensors} == tensors


@pytest.mark.parametrize("revision", ["B", "C"])
def test_modes_arrive_as_they_are_given(tmp_path: Path, revision: str) -> None:
    modes = {"qQuantMode": "PerTokenPerHead", "kQuantMode": ""}
    folder = install(tmp_path, REVISIONS[revision])
    code = f"""
        with opened(qkv_abi={revision!r}) as session:
            answer(**call(session, q_quant_mode="PerTokenPerHead", k_quant_mode="", mrope_section=()))
    """
    assert_passed(tmp_path, REVISIONS[revision], run(tmp_path, folder, code), **modes, mropeSection=[])


@pytest.mark.parametrize(
    ("revision", "scene", "text"),
    [
        ("A", "M-RoPE", "mrope_position must be None with revision A of the operator: it came with revision B"),
        ("A", "Mx", "k_quant_mode must be None with revision A of the operator: it came with revision C"),
        ("B", "Mx", "k_quant_mode must be None with revision B of the operator: it came with revision C"),
    ],
)
def test_a_scene_that_a_revision_has_not(tmp_path: Path, revision: str, scene: str, text: str) -> None:
    code = f"""
        with opened(qkv_abi={revision!r}) as session:
            answer(**error_of(lambda: call_scene(session, {scene!r})))
    """
    facts = run(tmp_path, install(tmp_path, REVISIONS[revision]), code)
    assert recorded(tmp_path) == []
    assert facts["type"] == "AclnnParameterError"
    assert text in facts["text"]
    assert f"revision {revision} of the operator is in force, by revision {revision!r}, as stated" in facts["text"]


def test_token_major_caches_that_revision_c_does_not_take(tmp_path: Path) -> None:
    folder = install(tmp_path, REVISIONS["C"])
    code = """
        def act():
            with opened(qkv_abi="C") as session:
                given = arrays(session)
                for name in ("k_cache", "v_cache"):
                    given[name] = session.array(np.zeros((3, 4, 2, 128), FP8)).transpose(0, 2, 1, 3)
                session.qkv_rms_norm_rope_cache_with_k_scale(**given, head_nums=(16, 2, 2))
        answer(**error_of(act))
    """
    facts = run(tmp_path, folder, code)
    assert recorded(tmp_path) == []
    assert (facts["type"], facts["status"], facts["arguments"]) == (
        "AclnnParameterError",
        161002,
        ["k_cache", "v_cache"],
    )
    assert "revisions A and B of the operator take token-major caches, C does not" in facts["text"]


# --- refusals, all before the operator is called


def refused(root: Path, folder: Path, opening: str = "", heads: str = "(16, 2, 2)", **environ: str) -> dict[str, Any]:
    code = f"""
        def act():
            with opened({opening}) as session: return call(session, {heads})
        answer(**error_of(act))
    """
    facts: dict[str, Any] = run(root, folder, code, **environ)
    assert recorded(root) == []
    return facts


@pytest.mark.parametrize("revision", REVISIONS)
def test_without_header_and_statement_nothing_is_called(tmp_path: Path, revision: str) -> None:
    error = refused(tmp_path, install(tmp_path, REVISIONS[revision]))
    assert error["type"] == "AbiMismatchError"
    for part in (f"{QKV}GetWorkspaceSize", "qkv_abi='A' or 'B' or 'C'", VARIABLE, str(tmp_path / "lib64/libopapi.so")):
        assert part in error["text"]


def test_the_revision_of_a_session_is_unknown_where_nothing_tells_it(tmp_path: Path) -> None:
    folder = install(tmp_path, A)
    code = "with opened() as session: answer(**error_of(lambda: session.qkv_abi))"
    error = run(tmp_path, folder, code)
    assert error["type"] == "AbiMismatchError"
    assert "State the revision: qkv_abi='A' or 'B' or 'C'" in error["text"]


def test_a_session_without_the_operator_has_no_revision(tmp_path: Path) -> None:
    folder = install(tmp_path, None)
    code = "with opened(qkv_abi='B') as session: answer(**error_of(lambda: session.qkv_abi))"
    assert run(tmp_path, folder, code)["type"] == "SymbolNotFoundError"


@pytest.mark.parametrize(("stated", "installed"), [("A", "B"), ("A", "C"), ("B", "A"), ("B", "C"), ("C", "B")])
@pytest.mark.parametrize("how", ["argument", "environment"])
def test_a_statement_that_the_header_contradicts(tmp_path: Path, stated: str, installed: str, how: str) -> None:
    folder = install(tmp_path, REVISIONS[installed], declarations(QKV, REVISIONS[installed]))
    by_argument = how == "argument"
    error = refused(
        tmp_path,
        folder,
        f"qkv_abi={stated!r}" if by_argument else "",
        **({} if by_argument else {VARIABLE: stated}),
    )
    assert error["type"] == "AbiMismatchError"
    assert f"revision {stated!r} was stated, but the header" in error["text"]
    assert str(tmp_path / QKV_HEADER) in error["text"]


@pytest.mark.parametrize("value", ["D", "a", "AB", " A"])
def test_a_revision_that_does_not_exist(tmp_path: Path, value: str) -> None:
    folder = install(tmp_path, A, declarations(QKV, A))
    for error in (refused(tmp_path, folder, f"qkv_abi={value!r}"), refused(tmp_path, folder, **{VARIABLE: value})):
        assert (error["type"], error["text"]) == (
            "ArgumentError",
            f"qkv_abi or {VARIABLE}: expected 'A' or 'B' or 'C', got {value!r}",
        )


@pytest.mark.parametrize("value", ["''", "0", "b'A'", "['A']", "[]", "False"])
def test_a_statement_that_is_no_text_or_empty(tmp_path: Path, value: str) -> None:
    error = refused(tmp_path, install(tmp_path, A, declarations(QKV, A)), f"qkv_abi={value}")
    assert error["type"] == "ArgumentError"
    assert error["text"].endswith(f"expected 'A' or 'B' or 'C', got {value}")


@pytest.mark.parametrize(
    ("base", "more"),
    [
        ("A", "const aclTensor *sinks"),
        ("A", "double limitOptional"),
        ("A", "const char *qQuantMode"),
        ("B", "int64_t blockMode"),
        ("B", "const char *vQuantMode"),
        ("C", "bool fastOptional"),
        ("C", "const aclIntArray *OptionalSection"),
    ],
)
def test_an_argument_that_is_not_known_and_may_not_be_null(tmp_path: Path, base: str, more: str) -> None:
    parameters = REVISIONS[base].replace("float epsilon,", f"float epsilon, {more},")
    error = refused(tmp_path, install(tmp_path, parameters, declarations(QKV, parameters)))
    assert error["type"] == "AbiMismatchError"
    [name] = names(more)
    assert f" {name} (" in error["text"]
    assert "is not known here and may not be NULL" in error["text"]


@pytest.mark.parametrize(
    ("old", "new", "obstacle"),
    [
        ("float epsilon", "double epsilon", "epsilon is double, not float"),
        ("const aclIntArray *headNums", "const aclTensor *headNums", "headNums is aclTensor *, not aclIntArray *"),
        ("const aclTensor *seqLens, ", "", "seqLens is missing"),
        ("uint64_t *workspaceSize", "int64_t *workspaceSize", "workspaceSize is int64_t *, not uint64_t *"),
    ],
)
def test_an_argument_of_another_type_or_missing(tmp_path: Path, old: str, new: str, obstacle: str) -> None:
    header = declarations(QKV, A.replace(old, new))
    assert header != declarations(QKV, A)
    error = refused(tmp_path, install(tmp_path, A, header))
    assert error["type"] == "AbiMismatchError"
    assert obstacle in error["text"]


def test_another_phase_2_is_refused_before_phase_1(tmp_path: Path) -> None:
    header = declarations(QKV, A).replace(PHASE_2, f"{PHASE_2}, int32_t mode")
    error = refused(tmp_path, install(tmp_path, A, header))
    assert error["type"] == "AbiMismatchError"
    assert "mode (int32_t) is not known here" in error["text"]


def test_a_header_that_lacks_the_function(tmp_path: Path) -> None:
    error = refused(tmp_path, install(tmp_path, A, declarations("aclnnOther", A)), "qkv_abi='A'")
    assert error["type"] == "AbiMismatchError"
    assert f"has no declaration of {QKV}GetWorkspaceSize" in error["text"]


# --- headers that differ in what does not matter


@pytest.mark.parametrize("base", REVISIONS)
def test_a_pointer_that_may_be_null_gets_null(tmp_path: Path, base: str) -> None:
    parameters = REVISIONS[base]
    for more, place in (
        ("const aclTensor *sinksOptional", "const aclTensor *qkv"),
        ("const char *modeOptional", "float epsilon"),
        ("void *hintOptional", "aclTensor *qOut"),
    ):
        parameters = parameters.replace(place, f"{more}, {place}")
    folder = install(tmp_path, parameters, declarations(QKV, parameters))
    assert_passed(tmp_path, parameters, run(tmp_path, folder, CALL), sinks=None, mode=None, hint=0)


RENAMED = (
    A.replace("*kCacheRef", "*kCache")
    .replace("*vCacheRef", "*vCache")
    .replace("*kScaleCacheRef", "*kScaleCacheOptional"),
    A.replace("rotationOptional", "rotation").replace("vScaleOptional", "vScale").replace("*qOut", "*qOutRef"),
    B.replace("qScaleOptional", "qScale").replace("*seqLensOptional", "*seqLens").replace("*qkv", "*qkvOptional"),
)


@pytest.mark.parametrize("parameters", RENAMED, ids=range(len(RENAMED)))
def test_arguments_renamed_with_or_without_suffixes(tmp_path: Path, parameters: str) -> None:
    folder = install(tmp_path, parameters, declarations(QKV, parameters))
    assert_passed(tmp_path, parameters, run(tmp_path, folder, CALL))


def test_arguments_in_another_order(tmp_path: Path) -> None:
    first, *rest = A.split(",")
    parameters = ",".join([*rest[:14][::-1], first, *rest[14:]])
    assert sorted(names(parameters)) == sorted(names(A))
    folder = install(tmp_path, parameters, declarations(QKV, parameters))
    assert_passed(tmp_path, parameters, run(tmp_path, folder, CALL))


def test_phase_2_is_matched_by_name_too(tmp_path: Path) -> None:
    header = declarations(QKV, A).replace(PHASE_2, PHASE_2.replace("executor", "executorRef"))
    assert_passed(tmp_path, A, run(tmp_path, install(tmp_path, A, header), CALL))


def test_a_header_as_cann_writes_it(tmp_path: Path) -> None:
    header = (
        '#ifndef GUARD_H\n#define GUARD_H\n#include "aclnn/aclnn_base.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
        "/**\n * function (old): aclnnStatus aclnnQkvRmsNormRopeCacheWithKScaleGetWorkspaceSize(void *none);\n */\n"
        + declarations(QKV, B).replace("aclnnStatus", '__attribute__((visibility("default")))\naclnnStatus')
        + "#ifdef __cplusplus\n}\n#endif\n#endif\n"
    )
    assert_passed(tmp_path, B, run(tmp_path, install(tmp_path, B, header), CALL))


# --- heads


@pytest.mark.parametrize("heads", ["(72, 9, 9)", "(16, 4, 4)", "(32, 32, 32)", "(8, 2, 2)", "(1, 1, 1)", "(1, 79, 79)"])
@pytest.mark.parametrize("revision", ["B", "C"])
def test_heads_that_only_revision_a_takes(tmp_path: Path, revision: str, heads: str) -> None:
    folder = install(tmp_path, REVISIONS[revision])
    error = refused(tmp_path, folder, f"qkv_abi={revision!r}", heads)
    assert (error["type"], error["status"], error["arguments"]) == ("AclnnParameterError", 161002, ["head_nums"])
    for part in ("head_nums must be", heads.translate(str.maketrans("()", "[]")), f"revision {revision!r}, as stated"):
        assert part in error["text"]


def test_the_installed_header_is_named_as_the_reason(tmp_path: Path) -> None:
    error = refused(tmp_path, install(tmp_path, B, declarations(QKV, B)), heads="(32, 32, 32)")
    assert (error["type"], error["arguments"]) == ("AclnnParameterError", ["head_nums"])
    assert f"the installed header {tmp_path / QKV_HEADER}" in error["text"]


TAKEN = {
    "A": [(72, 9, 9), (16, 4, 4), (32, 32, 32), (8, 2, 2), (1, 1, 1), (1, 79, 79)],
    "B": [(8 * n, n, n) for n in range(1, 9)],
    "C": [(8 * n, n, n) for n in range(1, 9)],
}


@pytest.mark.parametrize("revision", REVISIONS)
def test_heads_that_a_revision_takes(tmp_path: Path, revision: str) -> None:
    folder = install(tmp_path, REVISIONS[revision])
    code = f"""
        with opened(qkv_abi={revision!r}) as session:
            for heads in {TAKEN[revision]}: call(session, heads)
            answer()
    """
    run(tmp_path, folder, code)
    first = [made["arguments"] for made in recorded(tmp_path) if made["function"] != QKV]
    assert [tuple(arguments["headNums"]) for arguments in first] == TAKEN[revision]


SEQUENCES = (
    "[16, 2, 2]",
    "(16, 2, 2)",
    "np.array([16, 2, 2], np.int32)",
    "np.array([16, 2, 2], np.int64)",
    "np.array([16, 0, 2, 0, 2, 0], np.int32)[::2]",
    "np.array([16, 2, 2], np.uint8)",
    "tuple(np.array([16, 2, 2], np.int64))",
    "[np.int32(16), 2, np.uint64(2)]",
)


@pytest.mark.parametrize("revision", REVISIONS)
def test_head_nums_of_any_kind_arrive_as_int64(tmp_path: Path, revision: str) -> None:
    folder = install(tmp_path, REVISIONS[revision])
    code = f"""
        with opened(qkv_abi={revision!r}) as session:
            for heads in ({", ".join(SEQUENCES)}): call(session, heads)
            answer()
    """
    run(tmp_path, folder, code)
    first = [made["arguments"] for made in recorded(tmp_path) if made["function"] != QKV]
    assert [arguments["headNums"] for arguments in first] == [[16, 2, 2]] * len(SEQUENCES)


# --- several sessions in a process


def test_another_statement_in_the_same_process_is_refused(tmp_path: Path) -> None:
    folder = install(tmp_path, B)
    code = """
        with opened(qkv_abi="B") as session:
            error = error_of(lambda: opened(qkv_abi="C"))
            with opened(), opened(qkv_abi="B"): answer(error=error, addresses=call(session))
    """
    facts = run(tmp_path, folder, code)
    assert facts["error"]["type"] == "ArgumentError"
    assert facts["error"]["text"] == "qkv_abi: expected 'B', as stated before in this process, got 'C'"
    assert_passed(tmp_path, B, facts["addresses"])


def test_a_statement_holds_after_its_session(tmp_path: Path) -> None:
    code = """
        opened(qkv_abi="C").close()
        with opened() as session: answer(**call(session))
    """
    assert_passed(tmp_path, REVISIONS["C"], run(tmp_path, install(tmp_path, REVISIONS["C"]), code))


def test_a_refusal_can_be_followed_by_a_statement(tmp_path: Path) -> None:
    code = """
        with opened() as session: error = error_of(lambda: call(session))
        with opened(qkv_abi="C") as session: answer(error=error, addresses=call(session))
    """
    facts = run(tmp_path, install(tmp_path, REVISIONS["C"]), code)
    assert facts["error"]["type"] == "AbiMismatchError"
    assert_passed(tmp_path, REVISIONS["C"], facts["addresses"])


def test_a_later_statement_that_the_header_contradicts(tmp_path: Path) -> None:
    code = """
        with opened() as session: addresses = call(session)
        with opened(qkv_abi="A") as session: answer(error=error_of(lambda: call(session)), addresses=addresses)
    """
    facts = run(tmp_path, install(tmp_path, B, declarations(QKV, B)), code)
    assert facts["error"]["type"] == "AbiMismatchError"
    assert "revision 'A' was stated, but the header" in facts["error"]["text"]
    assert_passed(tmp_path, B, facts["addresses"])


# --- the simulator's own operators, without their headers

SCATTER_CALL = """
def scatter(session):
    fp8 = lambda value, *shape: np.full(shape, value, ml_dtypes.float8_e4m3fn)
    cache = fp8(0, 2, 1, 4, 32)
    session.scatter_pa_kv_cache_with_k_scale(fp8(2, 3, 1, 32), fp8(3, 3, 1, 32), cache, fp8(0, 2, 1, 4, 32),
        np.array([0, 5, 7], np.int32), np.ones((3, 1), np.float32), np.zeros((2, 1, 4, 1), np.float32))
    return np.flatnonzero(cache.astype(np.float32).any(axis=-1)).tolist()
"""


def test_scatter_needs_no_header_and_the_fused_operator_does(tmp_path: Path) -> None:
    folder = copy_libraries(tmp_path, "libopapi.so")
    code = (
        SCATTER_CALL + "with opened() as session: answer(rows=scatter(session), error=error_of(lambda: call(session)))"
    )
    facts = run(tmp_path, folder, code)
    assert facts["rows"] == [0, 5, 7]
    assert facts["error"]["type"] == "AbiMismatchError"


def test_scatter_does_not_mind_a_statement_about_the_other(tmp_path: Path) -> None:
    folder = copy_libraries(tmp_path, "libopapi.so")
    code = SCATTER_CALL + "with opened(qkv_abi='C') as session: answer(rows=scatter(session))"
    assert run(tmp_path, folder, code) == {"rows": [0, 5, 7]}
