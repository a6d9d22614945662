# SPDX-License-Identifier: Apache-2.0
"""The rules "fp8" and "relative": what they accept, what they measure, and that untouched rows stay exact."""

import copy
import importlib
import math
import pickle
import tracemalloc
import warnings
from collections import Counter

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_kvcache.compare import compare

rows_module = importlib.import_module("aclnn_kvcache.compare.rows")

E4M3FN, E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
F32 = np.float32


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


def codes(*values, dtype=E4M3FN):
    return np.array(values, np.uint8).view(dtype)


def fp8(actual, expected, dtype=E4M3FN, **options):
    return compare(codes(*actual, dtype=dtype), codes(*expected, dtype=dtype), "fp8", **options)


# --- fp8


def place_of(code, dtype):
    """Where the code stands among the numbers in order, or what it is if it is none."""
    value = float(codes(code, dtype=dtype).astype(F32)[0])
    if not math.isfinite(value):
        return str(abs(value)) if math.isnan(value) else str(value)
    numbers = np.arange(256, dtype=np.uint8).view(dtype).astype(F32)
    return sorted(set(numbers[np.isfinite(numbers)].tolist())).index(value)


@pytest.mark.parametrize("dtype", [E4M3FN, E5M2])
def test_every_pair_of_codes(dtype):
    """Distances are those between places in the sorted list of all numbers."""
    places = [place_of(code, dtype) for code in range(256)]
    actual, expected = np.divmod(np.arange(1 << 16), 256)
    histogram, apart = Counter(), 0
    for a, e in zip(actual, expected, strict=True):
        a, e = places[a], places[e]
        if isinstance(a, str) or isinstance(e, str):
            apart += a != e
            histogram[0] += a == e
        else:
            histogram[abs(a - e)] += 1
    result = fp8(actual, expected, dtype)
    assert result.elements.histogram == histogram
    assert result.elements.apart == apart
    assert result.elements.zeros == 2
    assert result.elements.compared == 1 << 16


@pytest.mark.parametrize(
    ("actual", "expected", "distance"),
    [(0x38, 0x38, 0), (0x39, 0x38, 1), (0x7E, 0x7D, 1), (0x01, 0x81, 2), (0x80, 0x01, 1), (0x00, 0x80, 0)],
)
def test_steps_by_hand(actual, expected, distance):
    result = fp8([actual] * 2, [expected] * 2, max_share=1)
    assert result.elements.steps == ((distance, 2),)
    assert result.ok == (distance <= 1)


def test_zeros_are_equal_but_counted():
    result = fp8([0x00, 0x80, 0x80], [0x80, 0x00, 0x80], max_steps=0, max_share=0)
    assert result.ok
    assert (result.elements.zeros, result.elements.unequal) == (2, 0)
    assert "+0 against -0: 2" in result.summary()


def test_nan_equals_only_nan():
    assert fp8([0x7F, 0xFF], [0xFF, 0x7F], max_share=0).ok
    result = fp8([0x7E] * 200 + [0x7F], [0x7E] * 201)
    assert not result.ok
    assert result.elements.apart == 1
    assert result.elements.where == (200,)
    assert not fp8([0x7E], [0x7F], max_share=1, max_steps=1000).ok
    assert fp8([0x7D, 0xFE], [0x7F, 0xFF], E5M2, max_share=0).ok


def test_an_infinity_is_no_step_from_the_largest_number():
    assert fp8([0x7C, 0xFC], [0x7C, 0xFC], E5M2, max_share=0).ok
    for other in (0x7B, 0xFC, 0x7D):
        assert not fp8([0x7C], [other], E5M2, max_share=1, max_steps=1000).ok


@pytest.mark.parametrize(
    ("elements", "unequal", "ok"),
    [
        (10_000, 10, True),
        (10_000, 11, False),
        (2_000, 2, True),
        (1_999, 2, False),
        (1_000, 1, True),
        (128, 1, True),  # a head row
        (100, 1, True),
        (99, 1, False),
        (128, 2, False),
        (1, 1, False),
        (1, 0, True),
    ],
)
def test_the_share_of_unequal_elements(elements, unequal, ok):
    expected = np.full(elements, 0x40)
    actual = expected.copy()
    actual[:unequal] += 1
    result = fp8(actual, expected)
    assert result.ok == ok
    assert result.counts["different"] == 0  # every element is within a step
    assert result.elements.unequal == unequal


def test_limits_are_options():
    assert not fp8([0x40] * 1000, [0x40] * 999 + [0x42]).ok
    assert fp8([0x40] * 1000, [0x40] * 999 + [0x42], max_steps=2).ok
    assert not fp8([0x40] * 1000, [0x40] * 999 + [0x41], max_share=0).ok
    assert fp8([0x40] * 3, [0x41] * 3, max_share=1).ok
    assert not fp8([0x40] * 3, [0x41] * 3, max_share=0.99).ok
    assert fp8([0x40] * 100, [0x41] * 29 + [0x40] * 71, max_share=0.29).ok
    assert fp8([0x40] * 3, [0x40] * 3, max_steps=0, max_share=0).ok


def test_the_report_has_the_histogram_and_the_farthest_element():
    expected = np.full((2, 3, 500), 0x40, np.uint8)
    actual = expected.copy()
    actual[0, 1, 7] = 0x41
    actual[1, 2, 499] = 0x44
    actual[1, 2, 3] = 0x3F
    result = compare(actual.view(E4M3FN), expected.view(E4M3FN), "fp8")
    assert not result
    assert result.counts == {"equal": 5, "different": 1}
    assert result.elements.histogram == {0: 2997, 1: 2, 4: 1}
    assert result.elements.where == (1, 2, 499)
    assert result.summary().splitlines() == [
        "fp8: NOT ok; rows of float8_e4m3fn [2, 3, 500]: 5 equal, 1 different",
        "  elements by steps apart: 0: 2997, 1: 2, 4: 1; NaN or infinity on one side: 0; +0 against -0: 0; "
        "0.1000% not equal, allowed 0.1000% and 1 step; farthest apart at [1, 2, 499]",
        "  first different: row [1, 2, :], element 499: actual 44, expected 40",
    ]


def test_rows_that_should_not_change_keep_every_byte_and_count_in_nothing():
    before = np.full((50, 128), 0x40, np.uint8)
    expected = before.copy()
    expected[:2] = 0x30
    actual = expected.copy()
    actual[0, 5] = 0x31
    assert compare(actual.view(E4M3FN), expected.view(E4M3FN), "fp8", before=before.view(E4M3FN)).elements.steps == (
        (0, 255),
        (1, 1),
    )
    actual[0, 6] = 0x31  # 2 of 256, though 2 of 6400 would do
    result = compare(actual.view(E4M3FN), expected.view(E4M3FN), "fp8", before=before.view(E4M3FN))
    assert result.counts == {"right": 2, "missing": 0, "wrong": 0, "stray": 0, "untouched": 48}
    assert not result.ok
    actual = expected.copy()
    actual[9, 9] = 0x41  # a step away, but nothing should be there
    result = compare(actual.view(E4M3FN), expected.view(E4M3FN), "fp8", before=before.view(E4M3FN))
    assert (result.ok, result.counts["stray"], result.elements.unequal) == (False, 1, 0)
    zeros = np.zeros((1, 4), np.uint8)
    result = compare((zeros + 0x80).view(E4M3FN), zeros.view(E4M3FN), "fp8", before=zeros.view(E4M3FN))
    assert result.counts["stray"] == 1


def test_a_row_that_was_not_written_is_missing():
    before, expected = codes(*[0x40] * 128), codes(*[0x50] * 128)
    result = compare(before, expected, "fp8", before=before)
    assert result.counts["missing"] == 1
    assert not result.ok


# --- relative


def relative(actual, expected, dtype=F32, **options):
    return compare(np.array(actual, dtype), np.array(expected, dtype), "relative", **options)


def test_relative_errors():
    result = relative([[1, 2], [3, 4.00001]], [[1, 2], [3, 4]])
    assert not result.ok
    assert result.counts == {"equal": 1, "different": 1}
    assert (result.elements.compared, result.elements.beyond, result.elements.where) == (4, 1, (1, 1))
    assert result.elements.largest == pytest.approx(2.5e-6, rel=0.05)
    assert relative([4.00001], [4], rtol=3e-6).ok
    assert (
        "largest relative error 2.5e-06, allowed 1e-06; 1 of 4 elements beyond; largest at [1, 1]" in result.summary()
    )


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", ml_dtypes.bfloat16, E4M3FN])
def test_the_limit_itself_passes(dtype):
    assert relative([-3], [-4], dtype, rtol=0.25).ok
    assert not relative([-3], [-4], dtype, rtol=0.2499).ok
    assert relative([1.5], [1.5], dtype, rtol=0).ok


def test_one_step_of_float32_passes_where_four_do_not():
    value = np.array([1 / 448], F32)
    near, far = value.view(np.uint32) + np.uint32(1), value.view(np.uint32) + np.uint32(16)
    assert compare(near.view(F32), value, "relative").ok
    assert not compare(far.view(F32), value, "relative").ok


def test_nan_and_infinity_equal_only_themselves():
    special = [np.nan, np.inf, -np.inf, 1.0, 0.0]
    for a in special:
        for e in special:
            result = relative([a], [e], rtol=1e30)
            assert result.ok == (a == e or (a != a and e != e) or (a, e) == (0, 1)), (a, e)
            if not result.ok:
                assert result.elements.largest == math.inf
                assert result.elements.where == (0,)


def test_zero_is_equal_to_any_zero_and_to_nothing_else():
    assert relative([-0.0, 0.0], [0.0, -0.0], rtol=0).ok
    assert not relative([1e-45], [0], rtol=1e30).ok
    assert not relative([0], [1e-45], rtol=0.5).ok


def test_extremes_do_not_overflow_into_agreement():
    big = np.finfo(np.float64).max
    assert not relative([big], [-big], np.float64).ok
    assert relative([3.4028235e38], [3.4028235e38]).ok


def test_scales_that_should_not_change_keep_every_bit():
    before = np.full((2, 1, 4, 1), -1, F32)
    expected = before.copy()
    expected[1, 0, 2] = 0.5
    actual = expected.copy()
    actual[1, 0, 2] = np.nextafter(F32(0.5), F32(1))
    assert compare(actual, expected, "relative", before=before).ok
    actual[0, 0, 0] = np.nextafter(F32(-1), F32(0))
    result = compare(actual, expected, "relative", before=before)
    assert (result.counts["stray"], result.elements.compared) == (1, 1)
    assert not result.ok


# --- both


@st.composite
def triples(draw):
    shape = draw(st.lists(st.integers(1, 3), max_size=4).map(tuple))
    size = int(np.prod(shape))
    values = st.lists(st.sampled_from([0x40, 0x41, 0x42, 0x7F, 0, 0x80]), min_size=size, max_size=size)
    return [np.array(draw(values), np.uint8).view(E4M3FN).reshape(shape) for _ in range(3)]


def near(a, e):
    a, e = (int(x.view(np.uint8)) for x in (a, e))
    zeros = {a, e} == {0, 0x80}
    return a == e or zeros or ({a, e} in ({0x40, 0x41}, {0x41, 0x42}))


@given(triples(), st.sampled_from([1 << 19, 1, 2, 3]))
def test_any_arrays_equal_the_plain_loop(arrays, block):
    actual, expected, before = arrays
    kinds, elements = Counter(), 0
    for index in np.ndindex(actual.shape[:-1]):
        a, e, b = (np.atleast_1d(array[index]) for array in arrays)
        accepted = all(near(x, y) for x, y in zip(a, e, strict=True))
        if e.tobytes() == b.tobytes():
            kind = "untouched" if a.tobytes() == b.tobytes() else "stray"
        else:
            kind = "right" if accepted else "missing" if a.tobytes() == b.tobytes() else "wrong"
            elements += a.size
        kinds[kind] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_BLOCK", block)
        result = compare(actual, expected, "fp8", before=before)
        plain = compare(actual, expected, "fp8", max_share=1)
    assert {kind: count for kind, count in result.counts.items() if count} == kinds
    assert result.elements.compared == elements
    assert plain.ok == all(near(a, e) for a, e in zip(actual.ravel(), expected.ravel(), strict=True))
    distances = compare_in_one_piece(actual, expected)
    assert plain.elements.where == (
        None
        if not distances.any()
        else tuple(map(int, np.unravel_index(distances.argmax(), np.atleast_1d(actual).shape)))
    )


def compare_in_one_piece(actual, expected):
    order = {0x40: 64, 0x41: 65, 0x42: 66, 0x7F: None, 0: 0, 0x80: 0}
    pairs = [
        (order[int(a)], order[int(e)])
        for a, e in zip(actual.view(np.uint8).flat, expected.view(np.uint8).flat, strict=True)
    ]
    return np.array([0 if a == e else 255 if None in (a, e) else abs(a - e) for a, e in pairs])


@pytest.mark.parametrize(("rule", "dtype"), [("fp8", E4M3FN), ("relative", np.float32)])
def test_strides_read_only_and_empty_arrays(rule, dtype):
    expected = np.arange(120, dtype=np.uint8).reshape(4, 5, 6).view(E4M3FN).astype(dtype)
    view = np.ascontiguousarray(expected[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    view.setflags(write=False)
    result = compare(view, expected, rule)
    assert result.ok
    assert result.elements.compared == 120
    assert result.elements.where is None
    for shape in [(0,), (3, 0), (0, 4)]:
        empty = np.zeros(shape, dtype)
        result = compare(empty, empty, rule, before=empty)
        assert result.ok
        assert result.elements.compared == 0
        assert result.summary()
    assert compare(np.zeros((), dtype), np.zeros((), dtype), rule).ok


@pytest.mark.parametrize(("rule", "dtype"), [("fp8", E4M3FN), ("relative", np.float32), ("relative", np.float64)])
@pytest.mark.parametrize("shape", [(1 << 23,), (64, 1 << 10, 128), (2, 3, 1 << 20, 1)], ids=str)
def test_memory_stays_modest(rule, dtype, shape):
    zero, one = (np.broadcast_to(np.array(fill).astype(dtype), shape) for fill in (0, 1))
    tracemalloc.start()
    try:
        result = compare(one, one, rule, before=zero)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.counts["right"] == np.prod(shape[:-1], dtype=int)
    assert peak < 64 << 20


@pytest.mark.parametrize("result", [fp8([0x40], [0x41]), relative([1], [np.inf])], ids=["fp8", "relative"])
def test_result_is_a_value(result):
    assert pickle.loads(pickle.dumps(result)) == result == copy.deepcopy(result)
    assert hash(result) == hash(copy.deepcopy(result))


@pytest.mark.parametrize(
    ("rule", "dtype"),
    [("fp8", np.uint8), ("fp8", np.float32), ("fp8", "V1"), ("relative", np.int32), ("relative", np.complex64)],
)
def test_dtypes_that_a_rule_does_not_compare(rule, dtype):
    with pytest.raises(TypeError, match=f"^expected: rule '{rule}' compares .*, got "):
        compare(np.zeros(2, dtype), np.zeros(2, dtype), rule)


@pytest.mark.parametrize(
    "options",
    [{"max_steps": -1}, {"max_steps": 0.5}, {"max_share": -0.1}, {"max_share": 1.1}, {"max_share": np.nan}]
    + [{"rtol": value} for value in (-1e-9, np.nan, np.inf)],
    ids=str,
)
def test_limits_are_checked(options):
    rule, dtype = ("relative", F32) if "rtol" in options else ("fp8", E4M3FN)
    with pytest.raises(ValueError, match=f"^{next(iter(options))}: expected a "):
        compare(np.zeros(2, dtype), np.zeros(2, dtype), rule, **options)
