# SPDX-License-Identifier: Apache-2.0
"""What a revision has not is refused with the name of the one that has it; outputs and workspaces by scene."""

import ml_dtypes
import numpy as np
import pytest
from good_calls import QKV, SCATTER, SCENES, mrope, mx, qkv, rope, scatter

from aclnn_kvcache import ArgumentError, TensorSpec, check_call
from aclnn_kvcache.dtypes import FP8_E8M0
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.rules.contracts import CONTRACTS, contract, method

ROOM = 1 << 20


def texts(revision, call):
    return [finding.message for finding in check_call(QKV, qkv_abi=revision, **call)]


def answer(revision, call):
    return next((f.status for f in check_call(QKV, qkv_abi=revision, **call) if f.status), 0)


@pytest.mark.parametrize(
    ("revision", "call", "text"),
    [
        (
            "A",
            mrope(),
            "mrope_position must be None with revision A of the operator: it came with revision B; got [5, 3]; "
            "all of M-RoPE needs revision B, stated where it is installed by qkv_abi='B' or ACLNN_KVCACHE_QKV_ABI=B",
        ),
        (
            "A",
            mx(),
            "mrope_position must be None with revision A of the operator: it came with revision B; got [5, 3]; "
            "all of Mx needs revision C, stated where it is installed by qkv_abi='C' or ACLNN_KVCACHE_QKV_ABI=C",
        ),
        (
            "A",
            rope(mrope_section=(1, 2, 3)),
            "mrope_section must be None with revision A of the operator: it came with revision B; got [1, 2, 3]",
        ),
        (
            "A",
            rope(q_quant_mode="NoQuant"),
            "q_quant_mode must be None with revision A of the operator: it came with revision B; got 'NoQuant'; "
            "all of M-RoPE needs revision B, stated where it is installed by qkv_abi='B' or ACLNN_KVCACHE_QKV_ABI=B",
        ),
        (
            "A",
            rope(k_quant_mode="Mx"),
            "k_quant_mode must be None with revision A of the operator: it came with revision C; got 'Mx'",
        ),
        (
            "B",
            mx(),
            "k_quant_mode must be None with revision B of the operator: it came with revision C; got 'Mx'; "
            "all of Mx needs revision C, stated where it is installed by qkv_abi='C' or ACLNN_KVCACHE_QKV_ABI=C",
        ),
    ],
)
def test_an_argument_that_came_later_is_the_first_finding(revision, call, text):
    finding = check_call(QKV, qkv_abi=revision, **call)[0]
    assert (finding.message, finding.status, finding.ez) == (text, 0, None)
    assert finding.rule == f"later.{finding.arguments[0]}"
    assert answer(revision, call) == (0 if call["rotation"] and call["q_scale"] else 161001)


@pytest.mark.parametrize("revision", "ABC")
@pytest.mark.parametrize("mode", [None, "", "PerTokenPerHead"])
def test_what_every_revision_does_anyway_can_be_asked_of_each(revision, mode):
    call = rope(q_quant_mode=mode, k_quant_mode=mode, mrope_section=(), mrope_position=None)
    assert check_call(QKV, qkv_abi=revision, **call) == []


@pytest.mark.parametrize("revision", "BC")
def test_head_counts_of_revision_a(revision):
    for heads in ((32, 8, 8), (72, 9, 9), (4, 2, 2)):
        assert check_call(QKV, **qkv(heads=heads)) == []
        [text] = texts(revision, qkv(heads=heads))
        assert text.startswith("head_nums must be ")
        assert text.endswith(f"got {list(heads)}; revision A of the operator takes other counts too")


def test_token_major_caches_that_revisions_a_and_b_take():
    major = {name: rope()[name]._replace(strides=(2048, 128, 256, 1)) for name in ("k_cache", "v_cache")}
    assert texts("A", rope(**major)) == texts("B", rope(**major)) == []
    [text] = texts("C", rope(**major))
    assert "revisions A and B of the operator take token-major caches, C does not" in text
    assert answer("C", rope(**major)) == 161002


def test_mx_in_revision_b():
    [mode] = [f for f in check_call(QKV, qkv_abi="B", **mx(k_quant_mode=None)) if f.rule == "q_quant_mode"]
    assert mode.message.endswith("got 'Mx'; Mx came with revision C of the operator")
    assert (mode.status, mode.ez) == (161002, "EZ0026")
    # Of q_scale, which M-RoPE has not, nothing else is asked.
    said = [f.message for f in check_call(QKV, qkv_abi="B", **mx()) if "q_scale" in f.arguments]
    assert said == ["q_scale must be None, got [5, 16, 4] (in M-RoPE)"]


def test_only_the_first_of_the_later_arguments_says_which_revision_has_the_scene():
    found = check_call(QKV, qkv_abi="A", **mx())
    later = [finding for finding in found if finding.rule.startswith("later.")]
    assert len(later) == 4
    assert ["needs revision C" in finding.message for finding in later] == [True, False, False, False]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (mrope(q_quant_mode=None), "for M-RoPE q_quant_mode must be 'NoQuant', got 'PerTokenPerHead'"),
        (mx(q_quant_mode=None), "for Mx q_quant_mode must be 'Mx', got 'PerTokenPerHead'"),
        (
            mx(q_quant_mode=None, k_quant_mode=None),
            "for Mx q_quant_mode must be 'Mx', got 'PerTokenPerHead'; k_quant_mode must be 'Mx', got 'PerTokenPerHead'",
        ),
        (
            rope(mrope_position=TensorSpec((5, 3), "int32")),
            "mrope_position and mrope_section must be given both or neither, got mrope_position only",
        ),
        (
            rope(mrope_section=(24, 20, 20)),
            "mrope_position and mrope_section must be given both or neither, got mrope_section only",
        ),
    ],
)
def test_where_outputs_are_left_out_the_scene_is_the_only_finding(call, text):
    call = {name: value for name, value in call.items() if name not in ("q_out", "q_scale")}
    [finding] = check_call(QKV, qkv_abi="C", **call)
    assert text in finding.message
    # CANN asks for q_scale first where it is NULL.
    assert check_call(QKV, qkv_abi="C", **call, q_scale=None)[0].rule == "required.q_scale"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (mrope(k_cache=rope()["k_cache"]), "k_cache must be int8, got float8_e4m3fn (in M-RoPE, where "),
        (mx(k_cache=mrope()["k_cache"]), "k_cache must be float8_e4m3fn, got int8; if the bytes are "),
        (mx(k_scale_cache=rope()["k_scale_cache"]._replace(shape=(4, 2, 8, 4), strides=None, storage=None)), None),
    ],
)
def test_the_scene_of_revision_c_tells_which_cache_has_the_wrong_dtype(call, text):
    call = {name: value for name, value in call.items() if name not in ("q_out", "q_scale")}
    [finding] = check_call(QKV, qkv_abi="C", **call)
    assert finding.message.startswith(text or "k_scale_cache must be float8_e8m0fnu, got float32")
    assert finding.message.count(" must be ") == finding.message.count("(in ") == 1


def test_without_a_scene_of_revision_c_all_kernels_are_told():
    [_, finding] = check_call(QKV, qkv_abi="C", **rope(k_quant_mode="Mx", k_cache=mrope()["k_cache"]))
    assert finding.message == (
        "k_cache, q_out and k_scale_cache must have dtypes for which there is a kernel: float8_e4m3fn, float8_e4m3fn, "
        "float32 (RoPE); int8, bfloat16, float32 (M-RoPE); float8_e4m3fn, float8_e4m3fn, float8_e8m0fnu (Mx); got "
        "int8, float8_e4m3fn, float32"
    )


@pytest.mark.parametrize(
    ("revision", "call", "text"),
    [
        ("C", mx(q_quant_mode="mx"), "for Mx q_quant_mode must be 'Mx', got 'mx'; 'Mx' is a mode, case counts"),
        ("C", mx(k_quant_mode="MX"), "for Mx k_quant_mode must be 'Mx', got 'MX'; 'Mx' is a mode, case counts"),
        ("B", mrope(q_quant_mode="noquant"), "which has to be said, got 'noquant'; 'NoQuant' is a mode, case counts"),
    ],
)
def test_the_case_of_modes_counts(revision, call, text):
    [finding] = check_call(QKV, qkv_abi=revision, **call)
    assert finding.message.endswith(text)


@pytest.mark.parametrize(
    ("shape", "action"), [((5, 20, 129), ""), ((0, 20, 128), "; without tokens do not call the operator")]
)
def test_only_without_tokens_the_advice_is_not_to_call(shape, action):
    found = check_call(QKV, qkv_abi="C", **rope(qkv=TensorSpec(shape, "bfloat16")))
    [finding] = [f for f in found if f.rule == "size.qkv"]
    assert finding.message == f"qkv must have tokens and head size 128, got {list(shape)}{action}"


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (mrope(q_quant_mode=None, q_scale=TensorSpec((5, 16), "float32")), "M-RoPE q_quant_mode must be 'NoQuant'"),
        (mrope(k_quant_mode="NoQuant"), "for M-RoPE k_quant_mode must be 'PerTokenPerHead', got 'NoQuant'"),
        (mrope(q_quant_mode="noquant"), "for M-RoPE q_quant_mode must be 'NoQuant', got 'noquant'"),
        (mrope(seq_lens=TensorSpec(1, "int32")), "for M-RoPE seq_lens must be None"),
        (mrope(mrope_position=None, mrope_section=None), "for M-RoPE mrope_position must be given"),
        (mx(rotation=TensorSpec((128, 128), "bfloat16")), "for Mx rotation must be None"),
        (mx(mrope_position=None, mrope_section=None), "for Mx mrope_position must be given"),
        (mx(layout_q_out=None), "for Mx layout_qkv and layout_q_out must be 'TND' and 'TND', got 'TND' and 'NTD'"),
        (rope(k_quant_mode="Mx"), "for RoPE k_quant_mode must be 'PerTokenPerHead', got 'Mx'"),
    ],
)
def test_a_call_of_revision_c_that_is_no_scene(call, wrong):
    [finding] = [f for f in check_call(QKV, qkv_abi="C", **call) if f.rule == "scene"]
    assert wrong in finding.message
    assert (finding.status, finding.ez) == (161002, "EZ0026")
    assert answer("C", call) == 161002


def test_what_is_said_of_a_scene_names_it():
    call = mrope(k_cache=rope()["k_cache"])
    [text] = texts("B", call)
    assert text == "k_cache must be int8, got float8_e4m3fn (in M-RoPE)"


@pytest.mark.parametrize("revision", "BC")
@pytest.mark.parametrize(
    ("layout", "shape"), [("TND", (5, 16)), ("NTD", (16, 5)), (None, (16, 5))], ids=["TND", "NTD", "None"]
)
def test_outputs_of_rope_that_are_left_out(revision, layout, shape):
    made = contract(QKV, revision).made_outputs(rope(), {"layout_q_out": layout, "layout_qkv": None} | heads())
    assert made == {
        "q_out": TensorSpec((*shape, 128), "FLOAT8_E4M3FN"),
        "q_scale": TensorSpec(shape, "float32"),
    }


def heads(**more):
    return {"head_nums": (16, 2, 2), **more}


def test_outputs_of_the_other_scenes_that_are_left_out():
    layouts = {"layout_qkv": "TND", "layout_q_out": "TND"}
    for revision in "BC":
        made = contract(QKV, revision).made_outputs(mrope(), heads(q_quant_mode="NoQuant", **layouts))
        assert made == {"q_out": TensorSpec((5, 16, 128), ml_dtypes.bfloat16)}
    made = contract(QKV, "C").made_outputs(mx(), heads(q_quant_mode="Mx", **layouts))
    assert made == {
        "q_out": TensorSpec((5, 16, 128), "FLOAT8_E4M3FN"),
        "q_scale": TensorSpec((5, 16, 4), FP8_E8M0),
    }
    for revision, calls in SCENES.items():
        for call in calls:
            without = {name: value for name, value in call().items() if name not in ("q_out", "q_scale")}
            assert check_call(QKV, qkv_abi=revision, **without) == []


def test_mrope_position_can_be_left_out():
    call = rope()
    assert "mrope_position" not in call
    assert check_call(QKV, qkv_abi="C", **call) == []
    with pytest.raises(ArgumentError, match="seq_lens: expected an array, a TensorSpec, or None"):
        check_call(QKV, qkv_abi="B", **{name: value for name, value in call.items() if name != "seq_lens"})


@pytest.mark.parametrize("revision", ["D", "a", "", None])
@pytest.mark.parametrize("operator", [QKV, SCATTER])
def test_a_revision_that_does_not_exist(operator, revision):
    call = {QKV: rope, SCATTER: scatter}[operator]()
    for ask in (check_call, predict):
        with pytest.raises(ArgumentError) as caught:
            ask(operator, qkv_abi=revision, **call)
        assert str(caught.value) == f"qkv_abi: expected 'A' or 'B' or 'C', got {revision!r}"


def test_scatter_has_one_contract_in_all_revisions():
    assert contract(SCATTER, "C") is contract(SCATTER) is CONTRACTS[SCATTER] is method(SCATTER)
    assert check_call(SCATTER, qkv_abi="C", **scatter()) == []


def test_the_contracts_of_the_fused_operator():
    assert contract(QKV) is CONTRACTS[QKV]
    assert [contract(QKV, revision).revision for revision in "ABC"] == ["A", "B", "C"]
    assert [len(contract(QKV, revision).parameters) for revision in "ABC"] == [18, 21, 22]
    assert contract(QKV, "A").later == ("mrope_position", "mrope_section", "q_quant_mode", "k_quant_mode")
    assert contract(QKV, "B").later == ("k_quant_mode",)
    assert contract(QKV, "C").later == ()
    assert method(QKV) is contract(QKV, "C")


@pytest.mark.parametrize(
    ("argument", "value", "text"),
    [
        ("mrope_section", 3, "mrope_section: expected a sequence of three integers (T, H, W), got 3"),
        ("mrope_section", "abc", "mrope_section: expected a sequence of three integers (T, H, W), got 'abc'"),
        ("q_quant_mode", b"Mx", "q_quant_mode: expected a string, got bytes"),
        ("k_quant_mode", 1, "k_quant_mode: expected a string, got int"),
    ],
)
def test_an_attribute_of_another_type(argument, value, text):
    with pytest.raises(ArgumentError) as caught:
        check_call(QKV, qkv_abi="C", **mrope(**{argument: value}))
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("revision", "call", "workspace"),
    [
        ("A", rope(), 33_554_944),
        ("B", rope(T=1000), 33_554_944),
        ("C", rope(T=262_144), 33_554_944),
        ("C", mx(T=262_144), 33_554_944),
        # 4 * T * Nq + 32 bytes, to the next multiple of 512
        ("B", mrope(T=1, heads=(8, 1, 1)), 33_554_944 + 512),
        ("C", mrope(T=15, heads=(8, 1, 1)), 33_554_944 + 512),
        ("C", mrope(T=16, heads=(8, 1, 1)), 33_554_944 + 1024),
        ("B", mrope(T=262_144, heads=(64, 8, 8)), 33_554_944 + 67_108_864 + 512),
    ],
)
def test_workspaces(revision, call, workspace):
    prediction = predict(QKV, qkv_abi=revision, **call)
    assert (prediction.workspace, prediction.copies, prediction.answer) == (workspace, (), None)


def test_copies_add_to_the_workspace():
    strided = mrope()["mrope_position"]._replace(strides=(6, 2), storage=30)
    prediction = predict(QKV, qkv_abi="B", **mrope(mrope_position=strided))
    assert prediction.copies == (("mrope_position", 60, False),)
    assert prediction.workspace == 33_554_944 + 512 + 512
    assert "copies: mrope_position, 60 bytes into the workspace" in str(prediction)


def test_a_prediction_follows_the_revision():
    assert predict(QKV, **qkv()).answer is None
    refused = predict(QKV, qkv_abi="B", **qkv())
    assert (refused.answer.rule, refused.path, refused.workspace) == ("head_nums.ratio", "nothing", 0)


def test_negative_extents_behind_the_first_axis_reach_outside_their_storage():
    """Dense strides then are negative. In front nothing depends on them, so that another decision answers."""
    call = qkv(T=-3, heads=(16, 2, 2), layout_qkv="NTD")
    for revision, codes in (("B", (561103, "EZ1001")), ("C", (561103, "EZ1001"))):
        first = next(f for f in check_call(QKV, qkv_abi=revision, **call) if f.status)
        assert (first.status, first.ez, first.rule) == (*codes, "copied_bounds.qkv")
        assert first.message == "qkv must have no negative dimension, got [20, -3, 128]"
    # Where strides are not dense, the first axis too.
    call = rope(cos_sin=TensorSpec((-1, 128), "float32", strides=(127, 1), storage=ROOM))
    for revision in "BC":
        first = next(f for f in check_call(QKV, qkv_abi=revision, **call) if f.status)
        assert (first.status, first.ez, first.rule) == (561103, "EZ1001", "copied_bounds.cos_sin")
    call = rope(T=-3)
    for revision, codes in (("B", (561103, "EZ0009", "extent.qkv")), ("C", (161002, "EZ0009", "size.qkv"))):
        first = next(f for f in check_call(QKV, qkv_abi=revision, **call) if f.status)
        assert (first.status, first.ez, first.rule) == codes


@pytest.mark.parametrize("revision", "BC")
def test_a_cache_that_starts_in_front_of_its_allocation(revision):
    call = rope(v_cache=rope()["v_cache"]._replace(offset=-1))
    [finding] = check_call(QKV, qkv_abi=revision, **call)
    assert (finding.rule, finding.status, finding.ez) == ("offset.v_cache", 561103, "EZ9999")
    [finding] = check_call(QKV, **call)
    assert (finding.rule, finding.status) == ("bounds.v_cache", 0)


def test_positions_inside_the_table_and_slots_apart_in_mx():
    positions = np.array([[0, 1, 2], [15, 0, 0], [3, 3, 3], [0, 0, -1], [99, 0, 0]], np.int32)
    call = mx(mrope_position=positions, slot_mapping=np.array([4, 3, 2, 4, 0], np.int32))
    found = check_call(QKV, qkv_abi="C", **call)
    assert [finding.rule for finding in found] == ["slot_duplicate", "mrope_position"]
    assert found[1].message == (
        "mrope_position of token 3, axis W, is -1, but cos_sin has rows 0..15 (2 values are outside); pass a table "
        "with a row for every position"
    )
