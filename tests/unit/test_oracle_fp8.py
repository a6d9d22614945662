# SPDX-License-Identifier: Apache-2.0
"""The saturating E4M3FN cast, against exact arithmetic on the definition of the format."""

import warnings
from bisect import bisect_left
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclnn_kvcache.oracle.fp8 import E4M3FN_MAX, to_e4m3fn


def number(code):
    """The value of a positive finite E4M3FN code: 4 exponent bits with bias 7, 3 mantissa bits."""
    exponent, mantissa = code >> 3, code & 7
    if exponent == 0:
        return Fraction(mantissa, 8) / 64
    return Fraction(8 + mantissa, 8) * Fraction(2) ** (exponent - 7)


NUMBERS = [number(code) for code in range(0x7F)]  # 0x7F is NaN


def expected_code(value):
    """Nearest code, ties to the even one, by comparing exact distances."""
    if np.isnan(value):
        return 0
    sign = 0x80 if np.signbit(value) else 0
    if np.isinf(value) or abs(Fraction(float(value))) >= NUMBERS[-1]:
        return sign | 0x7E
    magnitude = abs(Fraction(float(value)))
    above = bisect_left(NUMBERS, magnitude)
    candidates = {max(above - 1, 0), above}
    return sign | min(candidates, key=lambda code: (abs(NUMBERS[code] - magnitude), code & 1))


def codes(values):
    values = np.asarray(values, np.float32)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        result = to_e4m3fn(values)
    assert result.dtype == ml_dtypes.float8_e4m3fn
    return result.view(np.uint8).tolist()


def test_case_d1():
    values = [448, 449, 464, 464.0001, 465, 1000, -1000, -0.0, 2**-9, 2**-10]
    assert codes(values) == [0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0x80, 0x01, 0x00]


def test_the_largest_number_is_448():
    assert E4M3FN_MAX == 448
    assert NUMBERS[-1] == 448


def test_infinities_saturate_and_extremes_do_not_warn():
    assert codes([np.inf, -np.inf, 3.4028235e38, -3.4028235e38]) == [0x7E, 0xFE, 0x7E, 0xFE]
    assert codes([1e-45, -1e-45, 1.1754944e-38, -1.1754944e-38]) == [0x00, 0x80, 0x00, 0x80]


def test_every_nan_becomes_positive_zero():
    # Quiet and signalling, both signs.
    patterns = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)
    assert codes(patterns.view(np.float32)) == [0] * 6


def test_every_finite_code_returns_to_itself():
    finite = [code for code in range(256) if code & 0x7F != 0x7F]
    exact = [(-1 if code & 0x80 else 1) * float(NUMBERS[code & 0x7F]) for code in finite]
    assert codes(exact) == finite
    decoded = np.array(finite, np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert decoded.tolist() == exact


def test_every_tie_goes_to_the_even_code_and_its_neighbours_to_the_nearer():
    low = np.arange(0x7E)
    ties = np.array([float((NUMBERS[code] + NUMBERS[code + 1]) / 2) for code in low], np.float32)
    assert [Fraction(float(tie)) * 2 for tie in ties] == [NUMBERS[code] + NUMBERS[code + 1] for code in low]
    even = low + (low & 1)
    below, above = np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(np.inf))
    assert codes(ties) == even.tolist()
    assert codes(below) == low.tolist()
    assert codes(above) == (low + 1).tolist()
    assert codes(-ties) == (even | 0x80).tolist()
    assert codes(-below) == (low | 0x80).tolist()
    assert codes(-above) == (low + 1 | 0x80).tolist()


def test_every_bfloat16_pattern():
    values = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    assert codes(values) == [expected_code(value) for value in values]


@given(st.floats(width=32) | st.floats(-512, 512, width=32) | st.floats(-(2.0**-5), 2.0**-5, width=32))
def test_any_float32(value):
    assert codes([value]) == [expected_code(np.float32(value))]


def test_shape_and_strides():
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[::-1, :, ::2]
    before = values.copy()
    result = to_e4m3fn(values)
    assert result.astype(np.float32).tolist() == [
        [[12, 14], [16, 18], [20, 22]],
        [[0, 2], [4, 6], [8, 10]],
    ]
    assert np.array_equal(values, before)
    assert to_e4m3fn(np.float32([[]])).shape == (1, 0)
    assert to_e4m3fn(np.array(465, np.float32)).view(np.uint8) == 0x7E


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, ">f4"])
def test_only_float32(dtype):
    with pytest.raises(TypeError, match=r"^values: expected float32, got "):
        to_e4m3fn(np.zeros(3, dtype))
