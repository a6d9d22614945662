# SPDX-License-Identifier: Apache-2.0
"""The fused operator's rules on calls chosen by hand: order and wording, and what CANN lets through."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache import oracle
from aclnn_kvcache.layout import dense_strides
from aclnn_kvcache.rules.finding import ND, TensorSpec
from aclnn_kvcache.rules.qkv_rms_norm_rope_cache_with_k_scale import (
    CACHES,
    INPUTS,
    NAMES,
    OUTPUTS,
    TENSORS,
    WRITTEN,
    check,
    check_values,
)

BF16, E4M3FN = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
INT32, FLOAT32 = np.dtype(np.int32), np.dtype(np.float32)


def spec(shape, dtype, strides=None, offset=0, storage=None, format=ND):
    strides = dense_strides(shape) if strides is None else strides
    storage = int(np.prod(shape)) if storage is None else storage
    return TensorSpec(shape, np.dtype(dtype), strides, offset, storage, format)


def call(T=5, nq=4, nk=2, nv=None, B=3, blocks=4, size=8, table=16, layout_qkv="TND", layout_q_out="NTD", **changes):
    """The specs of a good call, with changes."""
    nv = nk if nv is None else nv
    heads = nq + nk + nv
    good = {
        "qkv": spec((T, heads, 128) if layout_qkv == "TND" else (heads, T, 128), BF16),
        "q_gamma": spec((128,), FLOAT32),
        "k_gamma": spec((128,), FLOAT32),
        "cos_sin": spec((table, 128), FLOAT32),
        "slot_mapping": spec((T,), INT32),
        "k_cache": spec((blocks, nk, size, 128), E4M3FN),
        "v_cache": spec((blocks, nv, size, 128), E4M3FN),
        "k_scale_cache": spec((blocks, nk, size, 1), FLOAT32),
        "query_start_loc": spec((B + 1,), INT32),
        "seq_lens": spec((B,), INT32),
        "rotation": spec((128, 128), BF16),
        "v_scale": spec((nv,), FLOAT32),
        "q_out": spec((T, nq, 128) if layout_q_out == "TND" else (nq, T, 128), E4M3FN),
        "q_scale": spec((T, nq) if layout_q_out == "TND" else (nq, T), FLOAT32),
    }
    assert changes.keys() <= good.keys()
    return {**good, **changes}


def found(specs, head_nums=(4, 2, 2), *attributes):
    return check(specs, head_nums, *attributes)


def only(specs, *attributes):
    [finding] = found(specs, *attributes)
    return finding


def answers(findings):
    return [(finding.status, finding.ez, finding.arguments) for finding in findings]


def has(message, *parts):
    assert [part for part in parts if part not in message] == []


def test_the_names():
    assert set(TENSORS) == set(call()) == {*INPUTS, *CACHES, *OUTPUTS}
    assert (*TENSORS[:12], "head_nums", "q_out", "q_scale") == NAMES
    assert WRITTEN == CACHES + OUTPUTS


@pytest.mark.parametrize("pair", [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD")])
@pytest.mark.parametrize("heads", [(8, 1, 1), (4, 4, 4), (1, 79, 79), (120, 8, 8), (1, 1, 1), (96, 32, 32)])
def test_a_good_call_has_no_findings(pair, heads):
    specs = call(nq=heads[0], nk=heads[1], layout_qkv=pair[0], layout_q_out=pair[1])
    assert found(specs, heads, *pair) == []
    assert found(specs, np.array(heads), *pair, 0.0) == []


@pytest.mark.parametrize("default", [None, ""])
def test_layouts_have_different_defaults(default):
    assert found(call(), (4, 2, 2), default, default) == []
    assert answers(found(call(layout_q_out="TND"), (4, 2, 2), "TND", default)) == [(161002, "EZ0010", OUTPUTS)]


# --- what CANN refuses: the order, and messages that say what is wanted


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_is_required_and_named(name):
    specs, heads = call(), (4, 2, 2)
    findings = found(specs, None) if name == "head_nums" else found(specs | {name: None}, heads)
    assert answers(findings) == [(161001, "EZ0026", (name,))]
    has(findings[0].message, f"{name} is None")


def test_all_missing_arguments_are_named_in_the_order_of_the_arguments():
    assert [finding.arguments for finding in found(dict.fromkeys(TENSORS), None)] == [(name,) for name in NAMES]


@pytest.mark.parametrize("name", TENSORS)
def test_empty_tensors_go_before_dtypes(name):
    specs = call(q_gamma=spec((128,), np.float16))
    empty = specs[name]._replace(shape=(0, *specs[name].shape[1:]))
    finding = only(specs | {name: empty})
    assert answers([finding]) == [(161002, "EZ0026", (name,))]
    has(finding.message, f"{name} must not be empty, got [0")


def test_no_tokens_are_refused_as_cann_does():
    assert [finding.arguments[0] for finding in found(call(T=0))] == ["qkv", "slot_mapping", "q_out", "q_scale"]


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [
        ("qkv", np.uint16, "bfloat16, got uint16; if the bits are bfloat16 say so: array.view(ml_dtypes.bfloat16)"),
        ("slot_mapping", np.int64, "int32, got int64"),
        ("k_cache", np.uint8, "float8_e4m3fn, got uint8; if the bytes are FP8 codes say which"),
        ("v_cache", ml_dtypes.float8_e5m2, "float8_e4m3fn, got float8_e5m2"),
        ("q_scale", BF16, "float32, got bfloat16"),
    ],
)
def test_dtypes(name, dtype, wanted):
    finding = only(call(**{name: call()[name]._replace(dtype=np.dtype(dtype))}), (1, 2, 3, 4))
    assert answers([finding]) == [(161002, "EZ0020", (name,))]
    has(finding.message, f"{name} must be {wanted}")


@pytest.mark.parametrize(
    ("head_nums", "ez", "wanted"),
    [
        ((4, 2), "EZ0025", "three counts"),
        ((4, 2, 2, 2), "EZ0025", "three counts"),
        ((0, 2, 2), "EZ0026", "counts above 0"),
        ((4, 2, -2), "EZ0026", "counts above 0"),
        ((4, 2, 3), "EZ0026", "as many K as V heads"),
    ],
)
def test_head_nums(head_nums, ez, wanted):
    finding = only(call(), head_nums, "tnd")
    assert answers([finding]) == [(161002, ez, ("head_nums",))]
    has(finding.message, f"head_nums must have {wanted}", f"got {list(head_nums)}")


@pytest.mark.parametrize(
    ("pair", "names"),
    [
        (("tnd", "NTD"), ["layout_qkv"]),
        (("TND", "BSH"), ["layout_q_out"]),
        (("BSH", "ntd"), ["layout_qkv", "layout_q_out"]),
        (("NTD", "TND"), ["layout_q_out"]),
    ],
)
def test_layouts(pair, names):
    findings = found(call(qkv=spec((3, 128), BF16)), (4, 2, 2), *pair)
    assert answers(findings) == [(161002, "EZ0026", (name,)) for name in names]
    for finding in findings:
        has(finding.message, f"{finding.arguments[0]} must be ", "got ")


@pytest.mark.parametrize(
    ("changes", "ez", "arguments", "wanted"),
    [
        ({"qkv": (5, 1024)}, "EZ0012", ("qkv",), "qkv must have the 3 dimensions T, N, D, got [5, 1024]"),
        ({"qkv": (5, 7, 128)}, "EZ0027", ("qkv", "head_nums"), "the 8 heads of head_nums [4, 2, 2] on axis 1"),
        ({"qkv": (5, 8, 64)}, "EZ0026", ("qkv",), "head size 128, got [5, 8, 64]"),
        ({"k_gamma": (64,)}, "EZ0010", ("q_gamma", "k_gamma"), "[D] = [128], got [128] and [64]"),
        ({"cos_sin": (16, 128, 1)}, "EZ0009", ("cos_sin",), "[MaxSeqLen, D] ([any, 128]), got [16, 128, 1]"),
        ({"slot_mapping": (4,)}, "EZ0009", ("slot_mapping",), "[T] ([5]), got [4]; T = 5"),
        ({"seq_lens": (4,)}, "EZ0009", ("seq_lens",), "[B] ([3]), got [4]"),
        ({"rotation": (128, 64)}, "EZ0009", ("rotation",), "[D, D] ([128, 128]), got [128, 64]"),
        ({"v_scale": (1,)}, "EZ0009", ("v_scale",), "[Nv] ([2]), got [1]"),
        ({"k_cache": (4, 8, 2, 128)}, "EZ0009", ("k_cache",), "([any, 2, any, 128]), got [4, 8, 2, 128]"),
        ({"k_scale_cache": (4, 2, 8)}, "EZ0009", ("k_scale_cache",), "got [4, 2, 8]"),
        ({"k_scale_cache": (4, 2, 9, 1)}, "EZ0010", ("k_cache", "k_scale_cache"), "4 blocks of 8 and 4 of 9"),
        ({"v_cache": (3, 2, 8, 128)}, "EZ0010", ("v_cache", "k_cache"), "3 blocks of 8 and 4 of 8"),
        ({"q_out": (5, 4, 128)}, "EZ0010", OUTPUTS, "must be [4, 5, 128] and [4, 5] with layout_q_out 'NTD'"),
        ({"q_scale": (4,)}, "EZ0010", OUTPUTS, "got [4, 5, 128] and [4]"),
    ],
)
def test_shapes(changes, ez, arguments, wanted):
    finding = only(call(**{name: spec(shape, call()[name].dtype) for name, shape in changes.items()}))
    assert answers([finding]) == [(161002, ez, arguments)]
    has(finding.message, wanted)


def test_one_start_is_no_batch():
    findings = found(call(query_start_loc=spec((1,), INT32)))
    assert answers(findings)[0] == (161002, "EZ0009", ("query_start_loc",))
    has(findings[0].message, "at least one batch ([2]), got [1]")


@pytest.mark.parametrize("name", TENSORS)
@pytest.mark.parametrize("number", [3, 4, 12, 29, 32, 33, 50, 51, 52, 53, 54])
def test_private_formats(name, number):
    finding = only(call(**{name: call()[name]._replace(format=number)}))
    assert answers([finding]) == [(161002, "EZ0017", (name,))]


@pytest.mark.parametrize("number", [0, 1, 2, 16, 27, 30, 35, 47])
def test_other_known_formats_pass(number):
    assert found({name: s._replace(format=number) for name, s in call().items()}) == []


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_that_is_copied_from_outside_its_allocation(name):
    """Row 19a: not contiguous and out of bounds; the measured calls have none."""
    good = call()[name]
    strides = tuple(2 * stride for stride in good.strides)
    reach = good._replace(strides=strides).reach[1]
    assert found(call(**{name: good._replace(strides=strides, storage=reach)})) == []
    finding = only(call(**{name: good._replace(strides=strides, storage=reach - 1)}))
    assert answers([finding]) == [(561103, "EZ1001", (name,))]
    has(finding.message, f"from element 0 to {reach - 1} of an allocation of {reach - 1} elements")


def test_a_negative_table_is_seen_in_tiling():
    """Row 21."""
    assert answers(found(call(cos_sin=spec((-1, 128), FLOAT32, storage=128)))) == [(561103, "EZ0009", ("cos_sin",))]


@pytest.mark.parametrize("name", CACHES)
def test_an_offset_behind_a_caches_allocation(name):
    good = call()[name]
    finding = only(call(**{name: good._replace(offset=good.storage + 1)}))
    assert answers([finding]) == [(561103, "EZ9999", (name,))]


def strided(name, strides):
    return call()[name]._replace(strides=strides, storage=1 << 20)


@pytest.mark.parametrize(
    "strides", [(2048, 1024, 128, 2), (0, 1024, 128, 1), (2048, -1024, 128, 1), (2048, 1024, 0, 1)]
)
def test_cache_strides(strides):
    specs = call(k_cache=strided("k_cache", strides)._replace(offset=1 << 15))
    assert answers(found(specs))[0] == (561103, "EZ0028", ("k_cache",))
    specs = call(v_cache=strided("v_cache", strides)._replace(offset=1 << 15))
    assert answers(found(specs))[0] == (561103, "EZ0028", ("v_cache",))


def test_caches_share_their_first_three_strides():
    specs = call(k_cache=strided("k_cache", (4096, 2048, 256, 1)))
    finding = only(specs)
    assert answers([finding]) == [(561103, "EZ0027", ("k_cache", "v_cache"))]
    has(finding.message, "[4096, 2048, 256, 1] and [2048, 1024, 128, 1]")
    assert found(specs | {"v_cache": strided("v_cache", (4096, 2048, 256, 1))}) == []


@pytest.mark.parametrize(("strides", "good"), [((64, 32, 4, 1), True), ((16, 8, 1, 0), False), ((16, 8, 1, 2), False)])
def test_scale_cache_strides(strides, good):
    findings = found(call(k_scale_cache=strided("k_scale_cache", strides)))
    assert answers(findings) == ([] if good else [(561103, "EZ0028", ("k_scale_cache",))])


@pytest.mark.parametrize(
    ("heads", "symbols"),
    [
        ((121, 8, 8), ["Nq + Nk of at most 128, got 129"]),
        ((1, 80, 80), ["Nq + Nk + Nv of at most 160, got 161"]),
        ((100, 40, 40), ["Nq + Nk of", "Nq + Nk + Nv of"]),
    ],
)
def test_head_limits(heads, symbols):
    findings = found(call(nq=heads[0], nk=heads[1]), heads)
    assert answers(findings) == [(561103, "EZ0026", ("head_nums",))] * len(symbols)
    for finding, part in zip(findings, symbols, strict=True):
        has(finding.message, part, "split the heads")


# --- what CANN lets through (status 0)


@pytest.mark.parametrize("name", TENSORS)
def test_an_allocation_that_is_one_element_short(name):
    good = call()[name]
    finding = only(call(**{name: good._replace(storage=good.storage - 1)}))
    assert (finding.rule, *answers([finding])[0]) == ("bounds", 0, None, (name,))


@pytest.mark.parametrize("name", TENSORS)
def test_a_view_that_ends_with_its_allocation_is_good(name):
    good = call()[name]
    assert found(call(**{name: good._replace(offset=7, storage=good.storage + 7)})) == []


def test_what_is_out_of_bounds_does_not_hide_what_cann_answers():
    good = call()
    findings = found(call(qkv=good["qkv"]._replace(storage=1), k_cache=strided("k_cache", (2048, 1024, 128, 2))))
    assert [(finding.rule, finding.status) for finding in findings] == [("bounds", 0), ("strides", 561103)]


@pytest.mark.parametrize("name", INPUTS)
def test_negative_strides(name):
    good = call()[name]
    strides = (-good.strides[0], *good.strides[1:])
    offset = good.strides[0] * (good.shape[0] - 1)
    finding = only(call(**{name: good._replace(strides=strides, offset=offset)}))
    assert (finding.rule, finding.status, finding.arguments) == ("negative_stride", 0, (name,))


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_contiguous(name):
    good = call()[name]
    strides = tuple(2 * stride for stride in good.strides)
    finding = only(call(**{name: good._replace(strides=strides, storage=2 * good.storage)}))
    assert (finding.rule, finding.status, finding.arguments) == ("contiguous", 0, (name,))
    has(finding.message, "CANN ignores them", "pass a contiguous array")


@pytest.mark.parametrize("epsilon", [-1e-6, -1e-60, np.nan, np.inf, -np.inf, 1e39])
def test_epsilon(epsilon):
    finding = only(call(), (4, 2, 2), None, None, epsilon)
    assert (finding.rule, finding.status, finding.arguments) == ("epsilon", 0, ("epsilon",))
    has(finding.message, repr(epsilon))


@pytest.mark.parametrize("number", [-1, 5, 999])
def test_unknown_formats(number):
    finding = only(call(rotation=call()["rotation"]._replace(format=number)))
    assert (finding.rule, finding.status, finding.arguments) == ("format", 0, ("rotation",))


def test_tokens_below_zero():
    findings = found(call(T=-1))
    assert [(finding.rule, finding.status) for finding in findings] == [("extent", 0)] * 4


# --- values


def values(slots=(0, 5, 9, 31, 7), starts=(0, 2, 2, 5), lengths=(2, 0, 16)):
    named = {"slot_mapping": slots, "query_start_loc": starts, "seq_lens": lengths}
    return {name: np.array(value, np.int32) for name, value in named.items() if value is not None}


def test_good_values():
    assert check_values(call(), values()) == []
    assert check_values(call(), values(lengths=(2, 99, 3))) == []  # a batch without tokens reads no position
    assert check_values(call(), {}) == []


def test_case_d2_padding_is_refused_and_no_padding_is_recommended():
    [finding] = check_values(call(T=3, blocks=2, size=4), values((0, -1, 5), (0, 0, 0, 3), (0, 0, 3)))
    assert (finding.rule, finding.status) == ("slot_range", 0)
    has(finding.message, "row 1 holds slot -1", "allowed are 0..7", "skips no row", "in front of the cache")
    assert "padding=" not in finding.message


@pytest.mark.parametrize(("slots", "rule"), [((0, 1, 2, 3, 32), "slot_range"), ((0, 1, 2, 3, 1), "slot_duplicate")])
def test_slots(slots, rule):
    assert [finding.rule for finding in check_values(call(), values(slots))] == [rule]


@pytest.mark.parametrize(
    ("starts", "lengths", "rule", "parts"),
    [
        ((1, 2, 2, 5), (2, 0, 3), "query_start", ["must start at 0, got 1"]),
        ((0, 3, 2, 5), (3, 0, 3), "query_order", ["batch 1 starts at token 3 and ends at 2;"]),
        ((0, 2, 2, 4), (2, 0, 3), "query_end", ["must end at the number of tokens, 5, got 4"]),
        ((0, 2, 2, 5), (1, 0, 3), "seq_lens", ["batch 0 has 1 with 2 tokens in this call;"]),
        ((0, 2, 2, 5), (2, -1, 2), "seq_lens", ["batch 1 has -1 with 0 tokens", "(2 batches do)"]),
        ((0, 2, 2, 5), (2, 0, 17), "position", ["batch 2, 17,", "position 16", "rows 0..15"]),
        ((0, 2, 2, 5), (2**31 - 1, 0, 17), "position", ["batch 0, 2147483647,", "(2 batches do)"]),
    ],
)
def test_batches(starts, lengths, rule, parts):
    findings = check_values(call(), values(starts=starts, lengths=lengths))
    assert [(finding.rule, finding.status, finding.ez) for finding in findings] == [(rule, 0, None)]
    has(findings[0].message + ";", *parts)


def test_values_on_a_device_are_left_out():
    bad = values((0, 0, 0, 0, 0), (1, 0, 0, 9), (0, 0, 99))
    rules = {
        "slot_mapping": ["slot_duplicate"],
        "query_start_loc": ["query_start", "query_order", "query_end"],
        "seq_lens": [],
    }
    for count in range(4):
        for names in itertools.combinations(rules, count):
            findings = check_values(call(), {name: bad[name] for name in names})
            assert [finding.rule for finding in findings] == [rule for name in names for rule in rules[name]]


def test_int32_extremes_do_not_wrap():
    starts = (0, 2**31 - 1, -(2**31), 5)
    rules = [finding.rule for finding in check_values(call(), values(starts=starts, lengths=(2, 0, 3)))]
    assert rules == ["query_order"]


def test_rules_and_oracle_refuse_the_same_values():
    """Drawn around the limits of T = 2, two batches, 4 slots and a table of 3 rows; each side has its own code."""
    r = np.random.default_rng(0)
    specs = call(T=2, nq=1, nk=1, B=2, blocks=2, size=2, table=3)
    arguments = {name: np.zeros(specs[name].shape, specs[name].dtype) for name in (*INPUTS, *CACHES)}
    verdicts = []
    for _ in range(2000):
        starts = [int(r.integers(20) == 0), r.integers(-1, 4), 2 + int(r.integers(20) == 0)]
        drawn = values(r.permutation(6)[:2] - 1, starts, r.integers(-1, 5, 2))
        try:
            oracle.qkv_rms_norm_rope_cache_with_k_scale(**arguments | drawn, head_nums=(1, 1, 1))
            refused = False
        except ValueError:
            refused = True
        assert bool(check_values(specs, drawn)) == refused, drawn
        verdicts.append(refused)
    assert 100 < sum(verdicts) < 1900
