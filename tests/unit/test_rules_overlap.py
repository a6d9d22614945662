# SPDX-License-Identifier: Apache-2.0
"""What is written shares no byte with itself or with another argument."""

import numpy as np

from aclnn_kvcache.rules import overlap
from aclnn_kvcache.rules.overlap import Region


def check_overlap(arrays, written):
    return overlap.check_overlap({name: Region.of(array) for name, array in arrays.items()}, written)


def found(written, **arrays):
    return [(finding.rule, finding.arguments) for finding in check_overlap(arrays, written)]


def test_separate_arrays_and_shared_inputs_pass():
    data = np.zeros(8, np.uint8)
    assert found(["cache"], key=data, value=data, cache=np.zeros(8, np.uint8)) == []


def test_an_input_inside_a_written_array():
    cache = np.zeros(8, np.uint8)
    [finding] = check_overlap({"key": cache[7:], "cache": cache}, ["cache"])
    assert (finding.rule, finding.arguments, finding.status) == ("overlap", ("cache", "key"), 0)
    assert "cache, which is written, shares memory with key" in finding.message


def test_two_written_arrays_are_reported_once():
    base = np.zeros(8, np.uint8)
    assert found(["a", "b"], a=base[:5], b=base[4:]) == [("overlap", ("a", "b"))]


def test_the_same_array_under_two_names():
    cache = np.zeros(4, np.uint8)
    assert found(["a", "b"], a=cache, b=cache) == [("overlap", ("a", "b"))]


def test_interleaved_rows_of_one_allocation_pass():
    base = np.zeros((3, 2, 8), np.uint8)
    assert found(["k", "v"], k=base[:, 0], v=base[:, 1]) == []


def test_arrays_of_other_item_sizes_meet_in_bytes():
    base = np.zeros(16, np.uint8)
    scales = base.view(np.float32)[1:2]  # bytes 4 to 7
    assert found(["scales"], scales=scales, key=base[7:]) == [("overlap", ("scales", "key"))]
    assert found(["scales"], scales=scales, key=base[8:]) == []


def test_a_broadcast_array_cannot_be_written():
    [finding] = check_overlap({"cache": np.broadcast_to(np.zeros(4, np.uint8), (3, 4))}, ["cache"])
    assert (finding.rule, finding.arguments, finding.status) == ("self_overlap", ("cache",), 0)
    assert "strides of [0, 1] bytes" in finding.message


def test_a_broadcast_input_passes():
    inputs = np.broadcast_to(np.zeros(4, np.uint8), (3, 4))
    assert found(["cache"], key=inputs, cache=np.zeros(4, np.uint8)) == []


def test_empty_arrays_share_nothing():
    base = np.zeros(8, np.uint8)
    assert found(["a"], a=base[3:3], b=base) == []


def test_device_arrays_are_compared_by_address():
    def pairs(second):
        regions = {
            name: Region(address, (2, 4), (8, 1), 1) for name, address in (("a", 0x12C0_4100_0000), ("b", second))
        }
        return [finding.arguments for finding in overlap.check_overlap(regions, ["a"])]

    assert pairs(0x12C0_4100_0004) == []
    assert pairs(0x12C0_4100_0003) == [("a", "b")]
