# SPDX-License-Identifier: Apache-2.0
"""check_call on whole calls: all findings in order, the empty short-cut, what it takes, and what it refuses to take."""

import math

import ml_dtypes
import numpy as np
import pytest
from good_calls import GOOD, QKV, SCATTER, qkv, scatter

from aclnn_kvcache import ArgumentError, Finding, TensorSpec, check_call
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.rules.contracts import CONTRACTS

E4M3FN, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16


def answers(findings):
    return [(finding.rule, finding.status) for finding in findings]


def arrays(call):
    """NumPy arrays with good values for the specs of a call."""
    made = {name: np.zeros(v.shape, v.dtype) if isinstance(v, TensorSpec) else v for name, v in call.items()}
    made["slot_mapping"] = np.arange(len(made["slot_mapping"]), dtype=made["slot_mapping"].dtype)
    if "seq_lens" in made:
        made["query_start_loc"][-1] = made["seq_lens"][-1] = len(made["slot_mapping"])
    return made


# --- all findings, in CANN's order


@pytest.mark.parametrize("operator", CONTRACTS)
def test_a_good_call_has_no_findings_whatever_its_arguments_are(operator):
    good = GOOD[operator]()
    assert check_call(operator, **good) == []
    assert check_call(operator, **arrays(good)) == []
    assert check_call(CONTRACTS[operator].api, **{**good, "slot_mapping": arrays(good)["slot_mapping"]}) == []


@pytest.mark.parametrize("fp8", [E4M3FN, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("slots", [np.int32, np.int64])
def test_the_dtypes_of_scatter(fp8, slots):
    good = scatter()
    four = {name: good[name]._replace(dtype=np.dtype(fp8)) for name in ("key", "value", "key_cache", "value_cache")}
    assert check_call(SCATTER, **{**good, **four, "slot_mapping": TensorSpec((3,), slots)}) == []


@pytest.mark.parametrize("pair", [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD")])
@pytest.mark.parametrize("heads", [(8, 1, 1), (4, 4, 4), (1, 79, 79), (120, 8, 8), (1, 1, 1), (96, 32, 32)])
def test_the_layouts_and_head_counts_of_the_fused_operator(pair, heads):
    call = qkv(heads=heads, layout_qkv=pair[0], layout_q_out=pair[1])
    assert check_call(QKV, **call) == []
    assert check_call(QKV, **{**call, "head_nums": np.array(heads), "epsilon": 0.0}) == []


@pytest.mark.parametrize("default", [None, ""])
def test_layouts_have_different_defaults(default):
    assert check_call(QKV, **{**qkv(), "layout_qkv": default, "layout_q_out": default}) == []
    token_major = {**qkv(layout_q_out="TND"), "layout_q_out": default}
    assert answers(check_call(QKV, **token_major)) == [("shape.q_out.q_scale", 161002)]


def test_nothing_stops_at_the_first_finding():
    findings = check_call(
        SCATTER,
        **scatter(
            key=TensorSpec((3, 2, 8), "float16", storage=40),
            value=None,
            key_cache=TensorSpec((4, 2, 5, 8), "float8_e4m3fn", format="FRACTAL_NZ"),
            slot_mapping=np.array([0, 0, 99], np.int8),
            key_scale_cache=TensorSpec((4, 2, 4), "float32"),
            cache_layout="BSND",
        ),
    )
    assert answers(findings) == [
        ("required.value", 161001),
        ("rank.key_scale_cache", 161002),
        ("dtype.key", 161002),
        ("dtype.slot_mapping", 161002),
        ("format.key_cache", 0),
        ("bounds.key", 0),
        ("blocks.value_cache", 0),
        ("cache_layout", 0),
        ("slot_range", 0),
        ("slot_duplicate", 0),
    ]
    assert all(isinstance(finding, Finding) for finding in findings)


@pytest.mark.parametrize("operator", CONTRACTS)
def test_a_call_of_nulls_lacks_every_argument_in_the_order_of_the_c_function(operator):
    nulls = dict.fromkeys(CONTRACTS[operator].tensors)
    names = [name for name in CONTRACTS[operator].parameters if name in {*nulls, "head_nums"}]
    assert answers(check_call(operator, **nulls)) == [(f"required.{name}", 161001) for name in names]


def test_no_tokens_are_refused_by_the_fused_operator():
    findings = check_call(QKV, **qkv(T=0))
    assert answers(findings) == [(f"empty.{n}", 161002) for n in ("qkv", "slot_mapping", "q_out", "q_scale")]
    assert "without tokens do not call the operator" in findings[0].message


@pytest.mark.parametrize("epsilon", [-1e-6, -1e-60, math.nan, math.inf, -math.inf, 1e39])
def test_epsilons_that_cann_takes_and_that_make_no_sense(epsilon):
    [finding] = check_call(QKV, **qkv(epsilon=epsilon))
    assert (finding.rule, finding.status) == ("epsilon", 0)
    assert repr(epsilon) in finding.message


@pytest.mark.parametrize("text", ["", "bnbd", "BSND", "ND"])
def test_layout_texts_of_scatter_that_cann_would_ignore(text):
    [finding] = check_call(SCATTER, **scatter(cache_layout=text))
    assert (finding.rule, finding.arguments, finding.status) == ("cache_layout", ("cache_layout",), 0)
    assert f"got {text!r}" in finding.message


@pytest.mark.parametrize(
    ("operator", "name", "dtype", "wanted"),
    [
        (SCATTER, "key", np.uint8, "float8_e5m2 or float8_e4m3fn, got uint8; if the bytes are FP8 codes say which"),
        (SCATTER, "key_scale", ">f4", "float32, got float32 in the other byte order (>f4); convert it: array.astype"),
        (SCATTER, "key", "HIFLOAT8", "float8_e5m2 or float8_e4m3fn, got HIFLOAT8"),
        (
            QKV,
            "qkv",
            np.uint16,
            "bfloat16, got uint16; if the bits are bfloat16 say so: array.view(",
        ),
        (QKV, "slot_mapping", np.int64, "int32, got int64; array.astype('int32') converts it if its values fit"),
        (QKV, "v_cache", "FLOAT8_E5M2", "float8_e4m3fn, got float8_e5m2"),
    ],
)
def test_dtypes_say_what_to_do(operator, name, dtype, wanted):
    good = GOOD[operator]()
    finding = check_call(operator, **{**good, name: TensorSpec(good[name].shape, dtype)})[0]
    assert (finding.rule, finding.status) == (f"dtype.{name}", 161002)
    assert finding.message.startswith(f"{name} must be {wanted}")


def test_an_offset_behind_the_allocation_is_seen_by_cann_on_the_view_path_only():
    behind = scatter()["key"]._replace(offset=49)
    padded = TensorSpec((4, 2, 4, 8), "float8_e4m3fn", strides=(128, 64, 16, 1), storage=512)
    assert answers(check_call(SCATTER, **scatter(key=behind))) == [("bounds.key", 0)]
    assert answers(check_call(SCATTER, **scatter(key=behind, key_cache=padded))) == [("offset.key", 561103)]


# --- the empty short-cut


@pytest.mark.parametrize(
    "empty", [{"slot_mapping"}, {"key", "value", "key_scale"}, {"key_cache", "value_cache", "key_scale_cache"}]
)
def test_beside_the_short_cut_everything_has_status_0(empty):
    good = scatter()
    call = {**good, **{name: TensorSpec((0, *good[name].shape[1:]), good[name].dtype) for name in empty}}
    call["value" if "value" not in empty else "value_cache"] = TensorSpec((3, 2), "int8")
    findings = check_call(SCATTER, **call)
    assert {"rank", "dtype"} <= {finding.rule.partition(".")[0] for finding in findings}
    assert {(finding.status, finding.ez) for finding in findings} == {(0, None)}


def test_no_tokens_are_nothing_to_find_in_scatter():
    assert check_call(SCATTER, **scatter(T=0)) == []


def test_two_empty_tensors_are_no_short_cut():
    good = scatter()
    both = {name: TensorSpec((0, *good[name].shape[1:]), good[name].dtype) for name in ("key", "value")}
    assert [f.status for f in check_call(SCATTER, **{**good, **both})] == [561103, 561103]


def test_a_missing_tensor_goes_before_the_short_cut():
    findings = check_call(SCATTER, **scatter(T=0, key=None, value=TensorSpec((0, 2), "int8")))
    assert answers(findings) == [("required.key", 161001), ("rank.value", 0), ("dtype.value", 0)]


# --- arrays


def test_host_arrays_are_looked_at_as_their_dense_device_copies():
    call = arrays(scatter())
    call["key"] = np.zeros((3, 2, 16), E4M3FN)[::-1, :, ::2]
    call["key_cache"] = np.zeros((2, 4, 4, 8), E4M3FN).transpose(1, 0, 2, 3)
    assert check_call(SCATTER, **call) == []


def test_values_and_memory_of_host_arrays_are_checked():
    call = arrays(qkv())
    call["slot_mapping"][:] = (0, 1, 1, 40, -1)
    call["seq_lens"][-1] = 17
    call["v_cache"] = call["k_cache"]
    assert answers(check_call(QKV, **call)) == [
        ("slot_range", 0),
        ("slot_duplicate", 0),
        ("position", 0),
        ("overlap.k_cache.v_cache", 0),
    ]


def test_a_read_only_array_is_refused_where_the_operator_writes():
    call = arrays(scatter())
    for name in ("key", "slot_mapping"):
        call[name].flags.writeable = False
    assert check_call(SCATTER, **call) == []
    for name in ("key_cache", "key_scale_cache"):
        call = arrays(scatter())
        call[name].flags.writeable = False
        with pytest.raises(ArgumentError, match=f"^{name}: expected an array that can be written, .*got a read-only"):
            check_call(SCATTER, **call)
        # A description beside it changes nothing.
        with pytest.raises(ArgumentError, match=f"^{name}: "):
            predict(SCATTER, **{**call, "key": TensorSpec((3, 2, 8), E4M3FN)})


def test_padding_passes_with_skip():
    slots = np.array([0, -1, -1], np.int64)
    assert check_call(SCATTER, **scatter(slot_mapping=slots, padding="skip")) == []
    [finding] = check_call(SCATTER, **scatter(slot_mapping=slots))
    assert 'rows to be left out are -1 and need padding="skip"' in finding.message


def test_outputs_that_are_left_out_are_as_the_session_makes_them_and_none_is_null():
    for layouts in ("TND", "NTD"), ("NTD", "NTD"), ("TND", "TND"):
        call = qkv(layout_qkv=layouts[0], layout_q_out=layouts[1])
        del call["q_out"], call["q_scale"]
        assert check_call(QKV, **call) == []
    assert answers(check_call(QKV, **call, q_scale=None)) == [("required.q_scale", 161001)]


# --- what it does not take


@pytest.mark.parametrize("operator", ["scatter", "", None, 7])
def test_an_unknown_operator(operator):
    with pytest.raises(ArgumentError, match="operator: expected one of scatter_pa_kv_cache_with_k_scale, aclnnScatter"):
        check_call(operator)


@pytest.mark.parametrize(
    ("operator", "changes", "argument", "text"),
    [
        (SCATTER, {"stream": None}, "stream", "an argument of scatter_pa_kv_cache_with_k_scale: key, value, key_cache"),
        (QKV, {"padding": "skip"}, "padding", "head_nums, layout_qkv, layout_q_out, epsilon, got an unknown name"),
        (SCATTER, {"key": [1, 2]}, "key", "a numpy.ndarray, a DeviceArray, a TensorSpec, or None for NULL, got list"),
        (SCATTER, {"value": np.ma.zeros(3)}, "value", "or None for NULL, got MaskedArray"),
        (SCATTER, {"cache_layout": 5}, "cache_layout", "a string or None, got int"),
        (SCATTER, {"padding": "zero"}, "padding", "'error' or 'skip', got 'zero'"),
        (QKV, {"head_nums": 4}, "head_nums", "a sequence of three integers (Nq, Nk, Nv), got 4"),
        (QKV, {"layout_q_out": b"TND"}, "layout_q_out", "a string, got bytes"),
        (QKV, {"epsilon": "1e-6"}, "epsilon", "a number, got str"),
    ],
)
def test_arguments_of_the_wrong_kind(operator, changes, argument, text):
    with pytest.raises(ArgumentError) as caught:
        check_call(operator, **{**GOOD[operator](), **changes})
    assert caught.value.argument == argument
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("make", "argument", "text"),
    [
        (
            lambda: TensorSpec((3,), None),
            "dtype",
            "expected a NumPy dtype, its name, or one of FLOAT, FLOAT16, .*None$",
        ),
        (lambda: TensorSpec((3,), "fp8"), "dtype", "FLOAT8_E5M2, FLOAT8_E4M3FN, .*got 'fp8'$"),
        (lambda: TensorSpec((3,), "FLOAT8_E4M3"), "dtype", "; did you mean FLOAT8_E4M3FN or "),
        (lambda: TensorSpec((3,), "BF16", format="nd"), "format", "one of UNDEFINED, .*got 'nd'; did you mean ND"),
        (lambda: TensorSpec((3,), "BF16", format=None), "format", "an aclFormat as a number, or one of .*got None$"),
        (
            lambda: TensorSpec((4, 4, 8), E4M3FN)._replace(shape=(4, 4)),
            "strides",
            r"expected 2 element counts, one per axis, got \(32, 8, 1\); give strides that go with the shape",
        ),
        (lambda: TensorSpec((4,), E4M3FN)._replace(dtype="fp8"), "dtype", "got 'fp8'$"),
    ],
)
def test_specs_that_cannot_be_meant(make, argument, text):
    with pytest.raises(ArgumentError, match=text) as caught:
        make()
    assert caught.value.argument == argument


def test_a_spec_with_changes_is_a_spec():
    spec = TensorSpec((4, 8), E4M3FN, offset=3, storage=100)
    assert spec._replace(shape=(2, 4), strides=None, format="FRACTAL_NZ") == TensorSpec(
        (2, 4), E4M3FN, (4, 1), 3, 100, 29
    )


@pytest.mark.parametrize("operator", CONTRACTS)
def test_a_tensor_that_is_left_out(operator):
    contract = CONTRACTS[operator]
    for name in contract.inputs + contract.caches:
        call = GOOD[operator]()
        del call[name]
        with pytest.raises(ArgumentError, match=rf"^{name}: expected an array, .*, got nothing; it must be given$"):
            check_call(operator, **call)
