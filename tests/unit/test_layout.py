# SPDX-License-Identifier: Apache-2.0
"""Shape, stride and overlap arithmetic against plain enumeration of every index."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_kvcache.layout import (
    bounds,
    canonical_strides,
    dense_strides,
    is_contiguous,
    overlaps_itself,
    phantom,
    phantom_offset,
    share_memory,
)


@st.composite
def views(draw, step=range(-6, 7), extent=range(5)):
    """Shape, strides in bytes, item size, address."""
    shape = tuple(draw(st.lists(st.sampled_from(extent), max_size=3)))
    strides = tuple(draw(st.lists(st.sampled_from(step), min_size=len(shape), max_size=len(shape))))
    return shape, strides, draw(st.sampled_from([1, 2, 4])), draw(st.integers(0, 40))


def elements(shape, strides, offset=0):
    """The place of every index."""
    for index in itertools.product(*map(range, shape)):
        yield offset + sum(i * s for i, s in zip(index, strides, strict=True))


def bytes_of(view):
    shape, strides, size, address = view
    return [start + byte for start in elements(shape, strides, address) for byte in range(size)]


def as_phantom(view):
    shape, strides, size, address = view
    return phantom(address, shape, strides, np.dtype(f"u{size}"))


@pytest.mark.parametrize(
    ("shape", "strides"), [((), ()), ((5,), (1,)), ((2, 3, 4), (12, 4, 1)), ((2, 0, 4), (4, 4, 1)), ((3, 1), (1, 1))]
)
def test_dense_strides(shape, strides):
    assert dense_strides(shape) == strides


@given(st.lists(st.integers(1, 4), max_size=4))
def test_dense_strides_visit_every_element_in_order(shape):
    assert list(elements(shape, dense_strides(shape))) == list(range(math.prod(shape)))


def test_case_d5_canonical_strides_of_a_scale_cache_made_with_none():
    scales = np.zeros((2, 1, 4), np.float32)[..., None]
    strides = tuple(stride // 4 for stride in scales.strides)
    assert strides[-1] == 0
    assert canonical_strides(scales.shape, strides) == (4, 4, 1, 1)
    assert canonical_strides((2, 1, 4, 1), (4, 4, 1, 0)) == (4, 4, 1, 1)


@pytest.mark.parametrize(
    ("shape", "strides", "canonical"),
    [
        ((), (), ()),
        ((1,), (7,), (1,)),
        ((1, 1, 1), (9, -3, 0), (1, 1, 1)),
        ((3, 2, 4, 8), (128, 64, 16, 1), (128, 64, 16, 1)),  # padding that is walked stays
        ((1, 2, 4, 8), (999, 64, 16, 1), (128, 64, 16, 1)),
        ((2, 1, 4, 8), (64, 7, 16, 1), (64, 64, 16, 1)),
        ((3, 4), (0, 1), (0, 1)),  # a broadcast axis is walked
        ((1, 0), (5, 1), (1, 1)),
    ],
)
def test_canonical_strides(shape, strides, canonical):
    assert canonical_strides(shape, strides) == canonical


@given(views())
def test_canonical_strides_visit_the_same_elements(view):
    shape, strides, _, _ = view
    canonical = canonical_strides(shape, strides)
    assert list(elements(shape, canonical)) == list(elements(shape, strides))
    assert canonical_strides(shape, canonical) == canonical


@given(views(step=range(-2, 13)))
def test_contiguous_means_every_element_in_order(view):
    shape, strides, _, _ = view
    assert is_contiguous(shape, strides) is (list(elements(shape, strides)) == list(range(math.prod(shape))))


@pytest.mark.parametrize(
    ("shape", "strides", "answer"),
    [
        ((1, 2, 4, 8), (999, 32, 8, 1), True),  # one block with a padded block stride
        ((2, 1, 4, 1), (4, 77, 1, 0), True),
        ((2, 2, 4, 8), (128, 64, 16, 1), False),
        ((4, 3), (1, 4), False),
        ((0, 3), (50, -7), True),
        ((), (), True),
    ],
)
def test_contiguity(shape, strides, answer):
    assert is_contiguous(shape, strides) is answer


@given(views())
def test_bounds_are_the_first_element_and_one_past_the_last(view):
    shape, strides, _, offset = view
    places = list(elements(shape, strides, offset))
    assert bounds(shape, strides, offset) == ((min(places), max(places) + 1) if places else (offset, offset))


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "answer"),
    [
        ((), (), 3, (3, 4)),
        ((3, 4), (-4, 1), 8, (0, 12)),
        ((3, 4), (-4, -1), 11, (0, 12)),
        ((3, 4), (0, 0), 5, (5, 6)),
        ((3, 0), (-4, 1), 8, (8, 8)),
        ((40_000, 8, 128, 128), (131_072, 16_384, 128, 1), 0, (0, 5_242_880_000)),
    ],
)
def test_bounds(shape, strides, offset, answer):
    assert bounds(shape, strides, offset) == answer


@given(views())
def test_overlaps_itself_means_two_indices_with_a_byte_in_common(view):
    places = bytes_of(view)
    assert overlaps_itself(*view[:3]) is (len(set(places)) < len(places))


@given(views(step=range(-12, 17, 4), extent=range(1, 5)))
def test_overlaps_itself_with_strides_of_whole_items(view):
    places = bytes_of(view)
    assert overlaps_itself(*view[:3]) is (len(set(places)) < len(places))


@given(views(), views())
def test_share_memory_means_a_byte_in_common(a, b):
    assert share_memory(as_phantom(a), as_phantom(b)) is bool(set(bytes_of(a)) & set(bytes_of(b)))


def test_overlap_of_big_device_caches_is_decided_without_reading():
    row = np.dtype(np.uint8)
    shape, strides = (40_000, 8, 128, 128), (2 * 131_072, 16_384, 128, 1)
    keys = phantom(0x12C0_4100_0000, shape, strides, row)
    values = phantom(0x12C0_4100_0000 + 131_072, shape, strides, row)
    assert not overlaps_itself(shape, strides, row.itemsize)
    assert not share_memory(keys, values)
    assert share_memory(keys, phantom(0x12C0_4100_0000 + 131_071, shape, strides, row))


def test_what_is_too_hard_to_decide_counts_as_shared():
    strides = (1_000_003, 1_000_033, 1_000_037, 1_000_039, 1_000_081, 1_000_099)
    a = phantom(0, (40,) * 6, strides, np.dtype(np.uint8))
    b = phantom(17, (40,) * 6, strides[::-1], np.dtype(np.uint8))
    assert share_memory(a, b) is True


@given(views(extent=range(1, 5)))
def test_a_phantom_has_the_layout_and_the_address_it_was_given(view):
    shape, strides, size, address = view
    made = as_phantom(view)
    assert (made.shape, made.strides, made.itemsize) == (shape, strides, size)
    assert phantom_offset(made) == address


def test_views_of_a_phantom_compute_with_an_address_that_is_not_mapped():
    base = phantom(0x12C0_4100_0000, (3, 2, 4, 16), (128, 64, 16, 1), np.dtype(np.uint8))
    view = base[::-1, 1, 1:, :8].transpose(1, 0, 2)
    assert (view.shape, view.strides) == ((3, 3, 8), (16, -128, 1))
    assert phantom_offset(view) == 0x12C0_4100_0000 + 2 * 128 + 64 + 16


def test_layouts_behind_every_address_count_as_overlapping():
    assert overlaps_itself((2, 2**31), (0, 3 * 2**31 + 4), 1)
