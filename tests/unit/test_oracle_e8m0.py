# SPDX-License-Identifier: Apache-2.0
"""E8M0 scales, against Fractions."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache.oracle.e8m0 import reciprocals, to_scales

F32 = np.float32


def byte(value):
    result = to_scales(np.array([value], F32))
    assert result.dtype == ml_dtypes.float8_e8m0fnu
    return result.view(np.uint8).item()


@pytest.mark.parametrize(
    ("largest", "code"),
    [
        (448, 127),
        (np.nextafter(F32(448), F32(500)), 128),
        (np.nextafter(F32(448), F32(0)), 127),
        (224, 126),
        (225, 127),
        (1, 119),  # 1 / 448 is between 2**-9 and 2**-8
        (448 * 2.0**-126, 1),
        (448 * 2.0**-127, 0),
        (2.0**-126, 0),
        (2.0**-149, 0),
        (0, 0),
        (np.finfo(F32).max, 247),  # 2**128 / 448 is between 2**119 and 2**120
        (np.inf, 255),
        (np.nan, 255),
    ],
)
def test_by_hand(largest, code):
    assert byte(largest) == code


def test_the_number_right_above_the_smallest_scale_keeps_it():
    """448 * 2**-127 and its two followers: by arithmetic the first of these would need 2**-126."""
    bits = np.array([0x04600000, 0x04600001, 0x04600002], np.uint32)
    assert bits.view(F32)[0] == F32(448 * 2.0**-127)
    assert to_scales(bits.view(F32)).view(np.uint8).tolist() == [0, 0, 1]


def least(largest):
    """The byte of the least power of two from 2**-127 on with largest <= 448 * 2**e."""
    code = 0
    while largest > 448 * Fraction(2) ** (code - 127):
        code += 1
    return code


def test_every_exponent_with_mantissas_around_the_step():
    mantissas = np.array([0, 1, 0x5FFFFF, 0x600000, 0x600001, 0x600002, 0x7FFFFF], np.uint32)
    bits = (np.arange(255, dtype=np.uint32)[:, None] << 23 | mantissas).ravel()
    bits = np.append(bits[bits != 0x04600001], np.random.default_rng(0).integers(0, 0x7F800000, 500, np.uint32))
    expected = [least(Fraction(float(value))) for value in bits.view(F32)]
    assert to_scales(bits.view(F32)).view(np.uint8).tolist() == expected


def test_every_pattern_without_a_number():
    bits = np.array([0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF], np.uint32)
    assert to_scales(bits.view(F32)).view(np.uint8).tolist() == [255] * 4


def test_reciprocals_are_exact():
    codes = np.arange(248, dtype=np.uint8)
    result = reciprocals(codes.view(ml_dtypes.float8_e8m0fnu))
    assert result.dtype == F32
    assert [Fraction(float(value)) for value in result] == [Fraction(2) ** (127 - int(code)) for code in codes]
    assert np.isnan(reciprocals(np.array([255], np.uint8).view(ml_dtypes.float8_e8m0fnu))).all()
