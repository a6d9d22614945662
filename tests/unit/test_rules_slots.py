# SPDX-License-Identifier: Apache-2.0
"""Slot values: in range, none twice, -1 only where it is skipped; the message says which row and why."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_kvcache import TensorSpec
from aclnn_kvcache.rules.contracts import CONTRACTS
from aclnn_kvcache.rules.rule import Call

SCATTER, QKV = CONTRACTS["scatter_pa_kv_cache_with_k_scale"], CONTRACTS["qkv_rms_norm_rope_cache_with_k_scale"]


def found(slots, blocks, block_size, dtype=np.int32, skip_padding=False):
    return check_slots(np.array(slots, dtype), blocks, block_size, skip_padding)


def check_slots(slots, blocks, block_size, skip_padding):
    specs = {"key_cache": TensorSpec((blocks, 1, block_size, 8), "float8_e4m3fn")}
    attributes = {"padding": "skip" if skip_padding else "error"}
    specs.update({name: None for name in SCATTER.tensors if name not in specs})
    return SCATTER.check_data(Call(specs, attributes, {"slot_mapping": slots}))


def only(slots, *geometry, **options):
    [finding] = found(slots, *geometry, **options)
    assert finding.arguments == ("slot_mapping",)
    assert (finding.status, finding.ez) == (0, None)  # CANN never looks at slot values
    return finding


def test_case_d2_padding_is_refused_by_default_and_the_message_says_what_it_needs():
    finding = only([0, -1, 5], 2, 4)
    assert finding.rule == "slot_range"
    for part in ("row 1", "slot -1", "allowed are 0..7", 'padding="skip"'):
        assert part in finding.message


def test_case_d2_padding_passes_where_it_is_skipped():
    assert found([0, -1, 5], 2, 4, skip_padding=True) == []


def test_the_fused_operator_skips_nothing_and_its_message_recommends_no_padding():
    specs = dict.fromkeys(QKV.tensors) | {"k_cache": TensorSpec((2, 1, 4, 128), "float8_e4m3fn")}
    [finding] = QKV.check_data(Call(specs, QKV.attributes, {"slot_mapping": np.array([0, -1, 5], np.int32)}))
    assert finding.rule == "slot_range"
    for part in ("row 1 holds slot -1", "allowed are 0..7", "skips no row", "in front of the cache"):
        assert part in finding.message
    assert "padding=" not in finding.message


def test_padding_may_be_repeated():
    assert found([-1, 3, -1, -1], 1, 4, skip_padding=True) == []


@pytest.mark.parametrize("skip_padding", [False, True])
def test_other_negatives_are_always_refused(skip_padding):
    message = only([0, -2], 2, 4, skip_padding=skip_padding).message
    assert "row 1 holds slot -2 (block -1 of 2, offset 2 with block size 4); allowed are 0..7" in message
    assert "padding" not in message


def test_case_d3_one_past_the_end_names_block_offset_and_limit():
    message = only([7, 8], 2, 4).message
    assert "row 1 holds slot 8 (block 2 of 2, offset 0 with block size 4); allowed are 0..7" in message


def test_case_d4_duplicates_name_both_rows_and_say_that_the_result_is_undefined():
    finding = only([1, 1], 1, 4)
    assert finding.rule == "slot_duplicate"
    assert "rows 0 and 1 both hold slot 1 (block 0, offset 1)" in finding.message
    assert "undefined" in finding.message


def test_unsorted_distinct_slots_pass():
    assert found([10, 11, 100, 13], 8, 16) == []


def test_one_slot_of_a_run_beyond_the_limit_is_found():
    message = only([10, 11, 100, 13], 4, 16).message
    assert "row 2 holds slot 100 (block 6 of 4, offset 4 with block size 16); allowed are 0..63" in message
    assert "rows are out of range" not in message


def test_the_first_row_is_named_and_the_others_are_counted():
    message = only([64, 5, 70, -3], 4, 16).message
    assert "row 0 holds slot 64" in message
    assert "(3 rows are out of range)" in message


def test_range_and_duplicates_are_both_reported():
    assert [finding.rule for finding in found([3, 99, 3], 1, 4)] == ["slot_range", "slot_duplicate"]


def test_the_smallest_repeated_slot_is_named_with_its_first_two_rows_and_the_others_are_counted():
    message = only([7, 2, 7, 2, 2], 2, 4).message
    assert "rows 1 and 3 both hold slot 2 (block 0, offset 2) (3 rows repeat an earlier slot)" in message


@pytest.mark.parametrize("slot", [2**32, 2**32 + 3, 2**40, 2**63 - 1])
def test_wide_slots_are_not_taken_modulo_32_bits(slot):
    message = only([slot], 2, 4, np.int64).message
    assert f"row 0 holds slot {slot} (block {slot // 4} of 2, offset {slot % 4}" in message


def test_wide_slots_differing_by_2_to_the_32_are_not_duplicates():
    assert found([3, 2**32 + 3], 2**31, 4, np.int64) == []


def test_a_cache_with_more_slots_than_the_dtype_holds():
    assert found([0, 2**31 - 1], 2**20, 2**20, np.int32) == []
    assert found([0, 255], 1000, 16, np.uint8) == []


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
@pytest.mark.parametrize("skip_padding", [False, True])
def test_unsigned_slots_have_no_padding_value(dtype, skip_padding):
    assert found([0, 7], 2, 4, dtype, skip_padding) == []
    highest = np.iinfo(dtype).max
    assert f"slot {highest}" in only([0, highest], 2, 4, dtype, skip_padding=skip_padding).message


def test_no_slots_at_all():
    assert found([], 2, 4) == []
    assert found([], 0, 0) == []


@pytest.mark.parametrize(("blocks", "block_size"), [(3, 0), (0, 16), (0, 0)])
def test_a_cache_without_slots_refuses_every_slot(blocks, block_size):
    message = only([1, 1], blocks, block_size).message
    assert f"row 0 holds slot 1 ({blocks} blocks of {block_size}); the cache has no slots" in message
    assert found([-1, -1], blocks, block_size, skip_padding=True) == []


def test_strided_slots_are_read_by_index():
    both = np.array([0, 99, 1, 99, 2, 99], np.int64)
    assert check_slots(both[::2], 1, 4, False) == []


@pytest.mark.parametrize("slots", [np.zeros((2, 1), np.int32), np.zeros(2, np.float32), np.array(0)])
def test_what_is_no_row_of_integers_is_left_to_other_rules(slots):
    assert check_slots(slots, 0, 4, False) == []


@given(
    slots=st.lists(st.integers(-3, 14), max_size=8),
    blocks=st.integers(0, 4),
    block_size=st.integers(0, 4),
    dtype=st.sampled_from([np.int8, np.int32, np.int64]),
    skip_padding=st.booleans(),
)
def test_agrees_with_a_plain_loop(slots, blocks, block_size, dtype, skip_padding):
    limit = blocks * block_size
    rules, seen = set(), set()
    for slot in slots:
        if slot == -1 and skip_padding:
            continue
        if not 0 <= slot < limit:
            rules.add("slot_range")
        elif slot in seen:
            rules.add("slot_duplicate")
        seen.add(slot)
    assert {finding.rule for finding in found(slots, blocks, block_size, dtype, skip_padding)} == rules
