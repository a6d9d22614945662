# SPDX-License-Identifier: Apache-2.0
"""The scatter rules on calls chosen by hand: order and wording, and what CANN lets through."""

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache.layout import dense_strides
from aclnn_kvcache.rules.finding import TensorSpec
from aclnn_kvcache.rules.scatter_pa_kv_cache_with_k_scale import NAMES, check, short_cut, takes_copy_path

E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)
INT32 = np.dtype(np.int32)
FLOAT32 = np.dtype(np.float32)


def spec(shape, dtype=E4M3FN, strides=None, offset=0, storage=None):
    strides = dense_strides(shape) if strides is None else strides
    return TensorSpec(shape, np.dtype(dtype), strides, offset, int(np.prod(shape)) if storage is None else storage)


def call(T=3, N=2, Dk=8, Dv=16, B=4, S=4, **changes):
    """The specs of a good call, with changes."""
    good = {
        "key": spec((T, N, Dk)),
        "value": spec((T, N, Dv)),
        "key_cache": spec((B, N, S, Dk)),
        "value_cache": spec((B, N, S, Dv)),
        "slot_mapping": spec((T,), INT32),
        "key_scale": spec((T, N), FLOAT32),
        "key_scale_cache": spec((B, N, S, 1), FLOAT32),
    }
    assert changes.keys() <= good.keys()
    return {**good, **changes}


def only(specs, cache_layout=None):
    [finding] = check(specs, cache_layout)
    return finding


def has(message, *parts):
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("fp8", [E4M3FN, E5M2])
@pytest.mark.parametrize("slots", [np.int32, np.int64])
def test_a_good_call_has_no_findings(fp8, slots):
    specs = call(slot_mapping=spec((3,), slots))
    specs |= {name: specs[name]._replace(dtype=fp8) for name in ("key", "value", "key_cache", "value_cache")}
    assert check(specs) == []
    assert check(specs, "BNBD") == []


# --- case D7


def test_case_d7_i_missing_scale():
    finding = only(call(key_scale=None))
    assert (finding.status, finding.ez, finding.arguments) == (161001, None, ("key_scale",))
    has(finding.message, "key_scale is None")


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_is_required_and_named(name):
    finding = only(call(**{name: None}))
    assert (finding.status, finding.arguments) == (161001, (name,))


def test_all_missing_tensors_are_named_in_the_order_of_the_arguments():
    findings = check(dict.fromkeys(NAMES))
    assert [finding.arguments for finding in findings] == [(name,) for name in NAMES]


def test_case_d7_ii_cache_of_the_other_fp8_format():
    finding = check(call(key_cache=spec((4, 2, 4, 8), E5M2)))[0]
    assert (finding.status, finding.ez, finding.arguments) == (161002, "EZ1001", ("key", "key_cache"))
    has(finding.message, "key", "key_cache", "float8_e4m3fn", "float8_e5m2")


def test_case_d7_iii_key_and_value_of_different_formats_with_matching_caches():
    finding = only(call(key=spec((3, 2, 8), E5M2), key_cache=spec((4, 2, 4, 8), E5M2)))
    assert (finding.status, finding.ez, finding.arguments) == (161002, "EZ1001", ("key", "value"))
    has(finding.message, "key and value", "got float8_e5m2 and float8_e4m3fn")


def test_case_d7_iv_rank_goes_before_dtype():
    finding = only(call(key=spec((3, 16), np.float16)))
    assert (finding.rule, finding.status, finding.arguments) == ("rank", 161002, ("key",))
    has(finding.message, "key must have 3 dimensions, got [3, 16]")


def test_case_d7_v_slot_dtype():
    finding = only(call(slot_mapping=spec((3,), np.int8)))
    assert (finding.status, finding.ez, finding.arguments) == (161002, "EZ1001", ("slot_mapping",))
    has(finding.message, "slot_mapping must be int32 or int64, got int8")


def test_case_d7_vi_two_scales_a_row():
    finding = only(call(key_scale_cache=spec((4, 2, 4, 2), FLOAT32)))
    assert (finding.status, finding.ez, finding.arguments) == (561103, "EZ0010", ("key_scale_cache",))
    has(finding.message, "[B, N, S, 1] = [4, 2, 4, 1]", "got [4, 2, 4, 2]")


# --- wording of what CANN refuses too


def test_raw_bytes_are_refused_and_the_message_says_how_to_make_them_fp8():
    finding = check(call(key=spec((3, 2, 8), np.uint8)))[0]
    has(finding.message, "key must be float8_e5m2 or float8_e4m3fn, got uint8", ".view(ml_dtypes.float8_e4m3fn)")


def test_the_other_byte_order_is_refused_and_the_message_says_how_to_convert():
    finding = check(call(key_scale=spec((3, 2), ">f4")))[0]
    assert (finding.status, finding.arguments) == (161002, ("key_scale",))
    has(finding.message, "key_scale must be float32, got float32 in the other byte order (>f4)", "newbyteorder('=')")


@pytest.mark.parametrize("name", ["key", "value", "key_cache", "value_cache"])
def test_a_head_size_of_zero(name):
    specs = call()
    finding = only(specs | {name: spec((*specs[name].shape[:-1], 0))})
    assert (finding.rule, finding.status, finding.ez, finding.arguments) == ("head_size", 161002, "EZ1001", (name,))


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "ez", "wanted"),
    [
        ("value", (3, 5, 16), E4M3FN, "EZ0009", "[T, N, Dv] = [any, 2, any]"),
        ("key_cache", (4, 2, 4, 9), E4M3FN, "EZ0009", "[B, N, S, Dk] = [any, 2, any, 8]"),
        ("value_cache", (4, 2, 4, 9), E4M3FN, "EZ0009", "[B, N, S, Dv] = [any, 2, any, 16]"),
        ("slot_mapping", (2,), INT32, "EZ0015", "[T] = [3]"),
        ("key_scale", (3, 1), FLOAT32, "EZ0010", "[T, N] = [3, 2]"),
        ("key_scale_cache", (4, 2, 5, 1), FLOAT32, "EZ0010", "[B, N, S, 1] = [4, 2, 4, 1]"),
    ],
)
def test_a_wrong_shape_names_the_symbols_what_is_wanted_and_what_came(name, shape, dtype, ez, wanted):
    finding = only(call(**{name: spec(shape, dtype)}))
    assert (finding.status, finding.ez, finding.arguments) == (561103, ez, (name,))
    has(finding.message, f"{name} must be {wanted}, got {list(shape)}", "key [3, 2, 8]")


# --- what CANN lets through (status 0)


@pytest.mark.parametrize(
    ("name", "shape", "wanted"),
    [
        ("value", (2, 2, 16), "[3, 2, any]"),
        ("value_cache", (3, 2, 4, 16), "[4, 2, 4, 16]"),
        ("value_cache", (4, 2, 3, 16), "[4, 2, 4, 16]"),
    ],
)
def test_the_extents_of_the_value_side_that_cann_does_not_compare(name, shape, wanted):
    finding = only(call(**{name: spec(shape)}))
    assert (finding.rule, finding.status, finding.ez, finding.arguments) == ("shape", 0, None, (name,))
    has(finding.message, wanted, f"got {list(shape)}")


@pytest.mark.parametrize("name", NAMES)
def test_an_allocation_that_is_one_element_short(name):
    specs = call()
    size = specs[name].storage
    finding = only(specs | {name: specs[name]._replace(storage=size - 1)})
    assert (finding.rule, finding.status, finding.arguments) == ("bounds", 0, (name,))
    has(finding.message, f"{name} reaches from element 0 to {size - 1} of an allocation of {size - 1} elements")


@pytest.mark.parametrize("name", NAMES)
def test_a_view_that_ends_with_its_allocation_is_good(name):
    specs = call()
    tensor = specs[name]
    assert check(specs | {name: tensor._replace(offset=5, storage=tensor.storage + 5)}) == []
    assert only(specs | {name: tensor._replace(offset=6, storage=tensor.storage + 5)}).rule == "bounds"


def test_a_view_in_front_of_its_allocation():
    backwards, outside = check(call(key=spec((3, 2, 8), strides=(-16, 8, 1), offset=31)))
    assert (backwards.rule, backwards.status) == ("negative_stride", 0)
    assert (outside.rule, outside.status) == ("bounds", 0)
    has(outside.message, "from element -1 to ")


def test_an_offset_behind_the_allocation_is_seen_by_cann_on_the_view_path_only():
    behind = spec((3, 2, 8), offset=49)
    assert [finding.status for finding in check(call(key=behind))] == [0]
    padded = spec((4, 2, 4, 8), strides=(128, 64, 16, 1), storage=512)
    finding = only(call(key=behind, key_cache=padded))
    assert (finding.status, finding.ez, finding.arguments) == (561103, "EZ9999", ("key",))


def test_a_tensor_outside_its_allocation_does_not_hide_a_wrong_shape():
    findings = check(call(key=spec((3, 2, 8), storage=40), value=spec((3, 5, 16))))
    assert [(finding.rule, finding.status) for finding in findings] == [("bounds", 0), ("shape", 561103)]


def test_a_padded_cache_alone_stays_in_place():
    padded = spec((4, 2, 4, 8), strides=(128, 64, 16, 1), storage=512)
    specs = call(key_cache=padded)
    assert not takes_copy_path(specs)
    assert check(specs) == []


def test_a_last_axis_that_is_not_dense_makes_a_padded_cache_be_copied_whole():
    padded = spec((4, 2, 4, 8), strides=(128, 64, 16, 1), storage=512)
    transposed = spec((3, 2, 8), strides=(1, 24, 3))
    specs = call(key_cache=padded, key=transposed)
    assert takes_copy_path(specs)
    finding = only(specs)
    assert (finding.rule, finding.status, finding.arguments) == ("whole_cache_copy", 0, ("key_cache",))
    has(finding.message, "key_cache would be copied whole", "the last axis of key has a stride other than 1")


def test_a_last_axis_that_is_not_dense_beside_dense_caches_copies_no_cache():
    assert check(call(key=spec((3, 2, 8), strides=(1, 24, 3)))) == []


def test_a_scale_cache_with_stride_0_on_its_last_axis_takes_the_copy_path_and_with_1_it_does_not():
    padded = spec((4, 2, 4, 8), strides=(128, 64, 16, 1), storage=512)
    for last, copies in ((0, True), (1, False)):
        scales = spec((4, 2, 4, 1), FLOAT32, strides=(8, 4, 1, last))
        assert takes_copy_path(call(key_cache=padded, key_scale_cache=scales)) is copies


def test_a_transposed_scale_is_used_in_place():
    assert not takes_copy_path(call(key_scale=spec((3, 2), FLOAT32, strides=(1, 3))))


def test_fact_12_few_tokens_into_a_cache_of_more_than_four_gi_elements():
    findings = check(call(T=1, N=8, Dk=128, Dv=128, B=40_000, S=128))
    assert [(finding.rule, finding.status, finding.arguments) for finding in findings] == [
        ("index_width", 0, ("key_cache",)),
        ("index_width", 0, ("value_cache",)),
    ]
    has(findings[0].message, "key_cache reaches over 5242880000 elements", "32 bits", str(2**32))


@pytest.mark.parametrize(("blocks", "rules"), [(2**15, []), (2**15 + 1, ["index_width", "index_width"])])
def test_the_index_limit_is_exactly_2_to_the_32_elements(blocks, rules):
    assert 2**15 * 8 * 128 * 128 == 2**32
    assert [finding.rule for finding in check(call(N=8, Dk=128, Dv=128, B=blocks, S=128))] == rules


@pytest.mark.parametrize(("tokens", "rules"), [(2**21 - 1, ["index_width", "index_width"]), (2**21, [])])
def test_many_tokens_make_the_kernel_index_in_64_bits(tokens, rules):
    assert 2**21 * 8 * 128 == 2**31
    assert [finding.rule for finding in check(call(T=tokens, N=8, Dk=128, Dv=128, B=40_000, S=128))] == rules


def test_inputs_cut_out_of_more_than_four_gi_elements_are_refused_too():
    wide = spec((3, 2, 8), strides=(2**31, 8, 1), storage=2**33)
    assert [(f.rule, f.arguments) for f in check(call(key=wide))] == [("index_width", ("key",))]


def test_the_wider_head_size_decides_the_index_width():
    assert [f.arguments for f in check(call(T=1, N=1, Dk=1, Dv=2**31 - 1, B=4, S=1))] == [("value_cache",)]
    assert check(call(T=1, N=1, Dk=1, Dv=2**31, B=4, S=1)) == []


def test_more_than_2_to_the_32_slots_wrap_the_limit_itself():
    findings = check(call(N=1, Dk=1, Dv=1, B=2**20, S=2**12 + 1))
    caches = [("key_cache",), ("value_cache",), ("key_scale_cache",)]
    assert [finding.arguments for finding in findings] == [("key_cache",), *caches]
    assert check(call(N=1, Dk=1, Dv=1, B=2**20, S=2**12)) == []


@pytest.mark.parametrize("text", ["", "bnbd", "BSND", "ND"])
def test_a_cache_layout_that_cann_would_ignore(text):
    finding = only(call(), text)
    assert (finding.rule, finding.status, finding.arguments) == ("cache_layout", 0, ("cache_layout",))
    has(finding.message, repr(text), "'BNBD'", "CANN ignores the text")


# --- the empty short-cut


def test_no_tokens_is_a_no_op():
    specs = call(T=0)
    assert short_cut(specs)
    assert check(specs) == []


@pytest.mark.parametrize(
    "empty", [{"slot_mapping"}, {"key", "value", "key_scale"}, {"key_cache", "value", "key_scale"}]
)
def test_the_short_cut_needs_no_slots_or_one_empty_tensor_of_each_pair(empty):
    specs = call()
    shapes = {name: (0, *specs[name].shape[1:]) for name in empty}
    assert short_cut(specs | {name: spec(shape, specs[name].dtype) for name, shape in shapes.items()})
    if len(empty) > 1:
        for name in empty:
            assert not short_cut(specs | {n: spec(s, specs[n].dtype) for n, s in shapes.items() if n != name})


def test_cann_answers_success_to_the_short_cut_before_it_looks_at_anything():
    findings = check(call(slot_mapping=spec((0,), np.int8), key=spec((3, 16), np.float16)))
    assert findings
    assert {(finding.status, finding.ez) for finding in findings} == {(0, None)}


def test_a_missing_tensor_goes_before_the_short_cut():
    assert [finding.status for finding in check(call(T=0, key=None))] == [161001]
