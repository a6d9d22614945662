# SPDX-License-Identifier: Apache-2.0
"""INT8 by way of FP16, against values found by hand and exact arithmetic, and the saturating BF16 cast."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache.oracle.bf16 import to_bf16_saturating
from aclnn_kvcache.oracle.int8 import to_int8

F32 = np.float32


def cast(values):
    with np.errstate(all="raise"):
        result = to_int8(np.array(values, F32))
    assert result.dtype == np.int8
    return result.tolist()


@pytest.mark.parametrize(
    ("value", "code", "direct"),
    [
        (0.5 + 2**-20, 0, 1),  # FP16 has no number between 0.5 and 0.5 + 2**-11
        (-0.5 - 2**-20, 0, -1),
        (1.5 - 2**-20, 2, 1),
        (2.5 + 2**-20, 2, 3),
        (62.5 + 2**-7, 62, 63),  # a place of FP16 is 2**-5 there
        (126.5 + 2**-6, 126, 127),  # and 2**-4 there
        (126.5 - 2**-6, 126, 126),
        (0.5 + 2**-10, 1, 1),  # which FP16 has
        (0.5, 0, 0),
        (1.5, 2, 2),
    ],
)
def test_two_roundings(value, code, direct):
    assert float(F32(value)) == value
    assert cast([value]) == [code]
    assert round(Fraction(value)) == direct


def test_ends_infinities_and_nan():
    assert cast([127.4, 127.5, 1e4, 65520, 3e38, np.inf]) == [127] * 6
    assert cast([-127.4, -127.96875, -128.5, -3e38, -np.inf]) == [-127, -128, -128, -128, -128]
    assert cast([np.nan, -np.nan, 0.0, -0.0, 1e-45]) == [0] * 5


def fp16(value):
    """The nearest FP16, ties to even, by Fractions, of numbers below 256."""
    exponent = -14
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    place = Fraction(2) ** (exponent - 10)
    return round(value / place) * place


def test_any_number_is_rounded_twice():
    r = np.random.default_rng(0)
    values = np.concatenate(
        [
            r.uniform(-128, 128, 3000),
            np.rint(r.uniform(-127, 127, 3000)) + 0.5 + r.choice([-1, 1], 3000) * 2.0 ** -r.integers(3, 22, 3000),
            r.standard_normal(1000) * 1e-5,
        ]
    ).astype(F32)
    expected = [max(-128, min(127, round(fp16(Fraction(float(value)))))) for value in values]
    assert cast(values) == expected
    assert sum(e != round(float(value)) for e, value in zip(expected, values, strict=True)) > 100


def test_shape_and_strides():
    values = np.arange(24, dtype=F32).reshape(2, 3, 4)[::-1, :, ::2]
    assert to_int8(values).tolist() == [[[12, 14], [16, 18], [20, 22]], [[0, 2], [4, 6], [8, 10]]]


def test_the_saturating_bf16_cast():
    largest = float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
    values = [1 + 2**-8, 1 + 3 * 2**-8, np.inf, -np.inf, 3.4028235e38, -3.4e38, np.nan, -np.nan, -0.0, 1e-45]
    with np.errstate(all="raise"):
        result = to_bf16_saturating(np.array(values, F32))
    assert result.dtype == ml_dtypes.bfloat16
    assert result.astype(F32).tolist() == [1, 1 + 2**-6, largest, -largest, largest, -largest, 0, 0, 0, 0]
    assert np.signbit(result.astype(F32)).tolist() == [False] * 3 + [True, False, True, False, False, True, False]
