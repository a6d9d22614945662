# SPDX-License-Identifier: Apache-2.0
"""What is written shares no byte with itself or with another argument."""

import numpy as np
import pytest
from good_calls import QKV, SCATTER, qkv, scatter

from aclnn_kvcache import check_call
from aclnn_kvcache.rules.contracts import CONTRACTS
from aclnn_kvcache.rules.region import Region, overlaps_itself, share_memory, touching
from aclnn_kvcache.rules.rule import Call


def found(**arrays):
    """Findings of scatter for the memory of these arrays."""
    specs = dict.fromkeys(CONTRACTS[SCATTER].tensors)
    call = Call(specs, {}, {}, {name: Region.of(array) for name, array in arrays.items()})
    return [finding.rule for finding in CONTRACTS[SCATTER].check_data(call)]


def test_separate_arrays_and_shared_inputs_pass():
    data = np.zeros(8, np.uint8)
    assert found(key=data, value=data, key_cache=np.zeros(8, np.uint8)) == []


def test_an_input_inside_a_written_array():
    cache = np.zeros(8, np.uint8)
    assert found(key=cache[7:], key_cache=cache) == ["overlap.key_cache.key"]


def test_two_written_arrays_are_reported_once():
    base = np.zeros(8, np.uint8)
    assert found(key_cache=base[:5], value_cache=base[4:]) == ["overlap.key_cache.value_cache"]
    assert found(key_cache=base[4:], value_cache=base[:5]) == ["overlap.key_cache.value_cache"]


def test_three_arrays_of_which_the_outer_two_do_not_meet():
    base = np.zeros(9, np.uint8)
    rules = found(key_cache=base[:4], value=base[3:6], value_cache=base[5:])
    assert rules == ["overlap.key_cache.value", "overlap.value_cache.value"]


def test_the_same_array_under_two_names():
    cache = np.zeros(4, np.uint8)
    assert found(key_cache=cache, value_cache=cache) == ["overlap.key_cache.value_cache"]


def test_interleaved_rows_of_one_allocation_pass():
    base = np.zeros((3, 2, 8), np.uint8)
    assert found(key_cache=base[:, 0], value_cache=base[:, 1]) == []
    assert touching({"k": Region.of(base[:, 0]), "v": Region.of(base[:, 1])}) == {("k", "v"), ("v", "k")}


def test_arrays_of_other_item_sizes_meet_in_bytes():
    base = np.zeros(16, np.uint8)
    scales = base.view(np.float32)[1:2]  # bytes 4 to 7
    assert found(key_scale_cache=scales, key=base[7:]) == ["overlap.key_scale_cache.key"]
    assert found(key_scale_cache=scales, key=base[8:]) == []


def test_a_broadcast_array_cannot_be_written_but_read():
    broadcast = np.broadcast_to(np.zeros(4, np.uint8), (3, 4))
    assert found(key_cache=broadcast) == ["self_overlap.key_cache"]
    assert found(key=broadcast, key_cache=np.zeros(4, np.uint8)) == []


def test_empty_arrays_share_nothing():
    base = np.zeros(8, np.uint8)
    assert found(key_cache=base[3:3], key=base) == []


def test_device_arrays_are_compared_by_address():
    a = Region(0x12C0_4100_0000, (2, 4), (8, 1), 1)
    assert not share_memory(a, a._replace(address=0x12C0_4100_0004))
    assert share_memory(a, a._replace(address=0x12C0_4100_0003))


def test_shapes_and_strides_alone_tell_that_a_cache_overlaps_itself():
    padded = scatter()["value_cache"]._replace(strides=(256, 128, 32, 1), storage=1024)
    assert check_call(SCATTER, **scatter(value_cache=padded)) == []
    [finding] = check_call(SCATTER, **scatter(value_cache=padded._replace(strides=(256, 128, 15, 1))))
    assert finding.rule == "self_overlap.value_cache"
    assert "strides of [256, 128, 15, 1] elements" in finding.message


def test_both_caches_of_the_fused_operator_overlap_themselves_together():
    """Their strides must be equal."""
    specs = qkv()
    shifted = {name: specs[name]._replace(strides=(2048, 1024, 127, 1)) for name in ("k_cache", "v_cache")}
    rules = [finding.rule for finding in check_call(QKV, **{**specs, **shifted})]
    assert rules == ["self_overlap.k_cache", "self_overlap.v_cache"]


@pytest.mark.parametrize("shape", [(2**40, 2**40, 3), (1,) * 70])
def test_shapes_that_no_array_can_have_are_judged_too(shape):
    strides = (2**41, 1, 1)[: len(shape)] + (0,) * (len(shape) - 3)
    assert overlaps_itself(shape, strides, 1) is (len(shape) == 3)
