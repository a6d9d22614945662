# SPDX-License-Identifier: Apache-2.0
"""What phase 1 will do, worked out by hand: path, copies, workspace, and what goes wrong on the way."""

import pytest
from good_calls import QKV, SCATTER, qkv, scatter

from aclnn_kvcache import TensorSpec
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.rules.predict import Copy

E4M3FN = "float8_e4m3fn"
PADDED = TensorSpec((4, 2, 4, 8), E4M3FN, strides=(128, 64, 16, 1), storage=512)
TRANSPOSED = TensorSpec((3, 2, 8), E4M3FN, strides=(1, 24, 3))


def risks(**changes):
    return [(risk.rule, risk.arguments) for risk in predict(SCATTER, **scatter(**changes)).risks]


def test_contiguous_tensors_take_the_copy_path_and_copy_nothing():
    prediction = predict(SCATTER, **scatter())
    assert prediction[:5] == (
        SCATTER,
        None,
        "contiguous copy",
        "all tensors are contiguous",
        (),
    )
    assert (prediction.is_repeatable, prediction.workspace, prediction.index_bits) == (False, 16_777_728, 32)
    assert prediction.risks == ()
    assert str(prediction).splitlines() == [
        f"{SCATTER}: nothing to copy, because all tensors are contiguous",
        "  repeatable executor: no (on this path CANN copies the caches onto themselves, which rules it out)",
        "  workspace: 16777728 bytes",
        "  kernel computes offsets in 32 bits",
    ]


def test_a_padded_cache_is_used_in_place():
    prediction = predict(SCATTER, **scatter(key_cache=PADDED))
    assert (prediction.path, prediction.reason) == ("in place", "key_cache strided, every last axis is dense")
    assert (prediction.copies, prediction.is_repeatable, prediction.workspace) == ((), True, 16_777_728)
    assert "  repeatable executor: yes, unless an identical call ran before on the thread" in str(prediction)


def test_a_cache_of_one_block_with_a_padded_block_stride_counts_as_contiguous():
    one = TensorSpec((1, 2, 4, 8), E4M3FN, strides=(999, 32, 8, 1))
    prediction = predict(SCATTER, **scatter(B=1, key_cache=one))
    assert (prediction.path, prediction.is_repeatable, prediction.copies) == ("contiguous copy", False, ())


def test_strided_slots_are_copied_on_either_path():
    slots = TensorSpec((3,), "int64", strides=(2,), storage=6)
    assert predict(SCATTER, **scatter(slot_mapping=slots, key_cache=PADDED)).copies == (
        Copy("slot_mapping", 24, False),
    )
    assert predict(SCATTER, **scatter(slot_mapping=slots)).copies == (Copy("slot_mapping", 24, False),)


def test_a_last_axis_that_is_not_dense_makes_a_padded_cache_be_copied_whole():
    prediction = predict(SCATTER, **scatter(key_cache=PADDED, key=TRANSPOSED))
    assert (prediction.path, prediction.reason) == (
        "contiguous copy",
        "the stride of the last axis is not 1: key (3)",
    )
    assert prediction.copies == (Copy("key", 48, False), Copy("key_cache", 256, True))
    assert prediction.workspace == 16_777_728 + 512 + 512
    [risk] = prediction.risks
    assert str(prediction).splitlines()[0].startswith(f"{SCATTER}: contiguous copy, because the stride of")
    assert (risk.rule, risk.arguments, risk.status) == ("whole_cache_copy.key_cache", ("key_cache",), 0)
    assert "key_cache would be copied whole (256 bytes) into the workspace and back" in risk.message
    assert "because the stride of the last axis is not 1: key (3); make that axis dense" in risk.message
    assert "  copies: key_cache, 256 bytes into the workspace and back" in str(prediction)
    assert "  copies: key, 48 bytes into the workspace\n" in str(prediction)


def test_copies_are_rounded_up_to_512_bytes():
    wide = TensorSpec((3, 2, 8), E4M3FN, strides=(1, 24, 3))
    cache = TensorSpec((40, 2, 4, 8), E4M3FN, strides=(128, 64, 16, 1), storage=40 * 128)
    assert predict(SCATTER, **scatter(B=40, key=wide, key_cache=cache)).workspace == 16_777_728 + 512 + 2560
    assert predict(SCATTER, **scatter(B=41, key=wide, key_cache=cache._replace(shape=(41, 2, 4, 8)))).workspace == (
        16_777_728 + 512 + 3072
    )


def test_a_last_axis_that_is_not_dense_beside_dense_caches_copies_no_cache():
    prediction = predict(SCATTER, **scatter(key=TRANSPOSED))
    assert (prediction.copies, prediction.risks) == ((Copy("key", 48, False),), ())


@pytest.mark.parametrize(("last", "path"), [(0, "contiguous copy"), (2, "contiguous copy"), (1, "in place")])
def test_the_last_stride_of_the_scale_cache_counts_though_that_axis_has_extent_1(last, path):
    scales = TensorSpec((4, 2, 4, 1), "float32", strides=(8, 4, 1, last))
    assert predict(SCATTER, **scatter(key_cache=PADDED, key_scale_cache=scales)).path == path


def test_a_transposed_scale_is_used_in_place():
    prediction = predict(SCATTER, **scatter(key_scale=TensorSpec((3, 2), "float32", strides=(1, 3))))
    assert (prediction.path, prediction.reason) == ("in place", "key_scale strided, every last axis is dense")


def test_few_tokens_into_a_cache_of_more_than_four_gi_elements():
    prediction = predict(SCATTER, **scatter(T=1, N=8, Dk=128, Dv=128, B=40_000, S=128))
    assert [(risk.rule, risk.arguments, risk.status) for risk in prediction.risks] == [
        ("index_width.key_cache", ("key_cache",), 0),
        ("index_width.value_cache", ("value_cache",), 0),
    ]
    message = prediction.risks[0].message
    assert message.startswith("key_cache reaches over 5242880000 elements; with so few tokens the kernel computes")
    assert "Use at most 4294967296 elements" in message
    assert f"  risk: {message}" in str(prediction)


BOTH = [(f"index_width.{name}", (name,)) for name in ("key_cache", "value_cache")]


@pytest.mark.parametrize(("blocks", "found"), [(2**15, []), (2**15 + 1, BOTH)])
def test_the_index_limit_is_exactly_2_to_the_32_elements(blocks, found):
    assert 2**15 * 8 * 128 * 128 == 2**32
    assert risks(N=8, Dk=128, Dv=128, B=blocks, S=128) == found


@pytest.mark.parametrize(("tokens", "found", "bits"), [(2**21 - 1, BOTH, 32), (2**21, [], 64)])
def test_many_tokens_make_the_kernel_index_in_64_bits(tokens, found, bits):
    assert 2**21 * 8 * 128 == 2**31
    numbers = {"T": tokens, "N": 8, "Dk": 128, "Dv": 128, "B": 40_000, "S": 128}
    assert risks(**numbers) == found
    assert predict(SCATTER, **scatter(**numbers)).index_bits == bits


def test_inputs_cut_out_of_more_than_four_gi_elements():
    wide = TensorSpec((3, 2, 8), E4M3FN, strides=(2**31, 8, 1), storage=2**33)
    assert risks(key=wide) == [("index_width.key", ("key",))]


def test_the_wider_head_size_decides_the_index_width():
    assert risks(T=1, N=1, Dk=1, Dv=2**31 - 1, B=4, S=1) == [("index_width.value_cache", ("value_cache",))]
    assert risks(T=1, N=1, Dk=1, Dv=2**31, B=4, S=1) == []


def test_more_than_2_to_the_32_slots_wrap_the_limit_itself():
    found = risks(N=1, Dk=1, Dv=1, B=2**20, S=2**12 + 1)
    caches = ("key_cache", "value_cache", "key_scale_cache")
    assert found[0] == ("index_width.slots", ("key_cache",))
    assert sorted(found[1:]) == sorted((f"index_width.{name}", (name,)) for name in caches)
    assert risks(N=1, Dk=1, Dv=1, B=2**20, S=2**12) == []


def test_an_empty_call_launches_nothing():
    prediction = predict(SCATTER, **scatter(T=0))
    assert (prediction.path, prediction.workspace, prediction.copies) == ("nothing", 0, ())
    assert "the call is empty (key, value, slot_mapping, key_scale), so phase 2 launches nothing" in str(prediction)


def test_the_fused_operator_copies_strided_inputs_only():
    prediction = predict(QKV, **qkv())
    assert (prediction.path, prediction.copies, prediction.workspace) == ("in place", (), 33_554_944)
    assert (prediction.is_repeatable, prediction.index_bits, prediction.risks) == (True, None, ())
    strides = (4096, 2048, 256, 1)
    caches = {name: qkv()[name]._replace(strides=strides, storage=2**15) for name in ("k_cache", "v_cache")}
    transposed = TensorSpec((5, 8, 128), "bfloat16", strides=(128, 640, 1))
    prediction = predict(
        QKV, **qkv(qkv=transposed, v_scale=TensorSpec((2,), "float32", strides=(3,), storage=4), **caches)
    )
    assert prediction.copies == (Copy("qkv", 5 * 8 * 128 * 2, False), Copy("v_scale", 8, False))
    assert prediction.workspace == 33_554_944 + 10_240 + 512
    assert prediction.reason == "caches are used through their strides, strided inputs are copied"


def test_a_call_that_cann_refuses_is_predicted_to_be_refused():
    prediction = predict(QKV, **qkv(head_nums=(4, 2)))
    assert (prediction.answer.rule, prediction.path, prediction.workspace) == ("head_nums.length", "nothing", 0)
    assert str(prediction).splitlines() == [
        f"{QKV}: nothing, because CANN answers 161002",
        "  refused: head_nums must have three counts, Nq, Nk and Nv, got [4, 2]",
        "  workspace: 0 bytes",
    ]


def test_what_only_the_device_would_do_wrong_does_not_keep_cann_from_going_on():
    prediction = predict(SCATTER, **scatter(cache_layout="BSND", value=TensorSpec((1, 2, 16), E4M3FN)))
    assert (prediction.answer, prediction.workspace) == (None, 16_777_728)
