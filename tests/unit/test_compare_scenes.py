# SPDX-License-Identifier: Apache-2.0
"""The rules "bf16", "int8" and "mx": what they accept and what they measure."""

import copy
import importlib
import pickle
import tracemalloc
import warnings
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache.compare import compare

rows_module = importlib.import_module("aclnn_kvcache.compare.rows")

BF16, E4M3FN, E8M0 = (np.dtype(getattr(ml_dtypes, n)) for n in ("bfloat16", "float8_e4m3fn", "float8_e8m0fnu"))


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


# --- int8


def int8(actual, expected, **options):
    return compare(np.array(actual, np.int8), np.array(expected, np.int8), "int8", **options)


def test_every_pair_of_int8():
    a, e = np.divmod(np.arange(1 << 16), 256)
    result = int8(a - 128, e - 128)
    assert result.elements.histogram == {d: (256 if d == 0 else 2 * (256 - d)) for d in range(256)}
    assert (result.elements.zeros, result.elements.apart) == (0, 0)
    assert not result.ok
    assert result.elements.where == (255,)  # -128 against 127


def test_int8_within_one_unit():
    assert int8([-127, 0, 126], [-126, 1, 127]).ok
    assert int8([0] * 128, [1] * 128).ok  # any share of them
    assert not int8([0] * 1000, [0] * 999 + [2]).ok
    assert not int8([127], [-128]).ok
    assert int8([0], [2], max_steps=2).ok
    assert not int8([0] * 10, [1] * 10, max_share=0.5).ok


def test_int8_rows_that_should_not_change_keep_every_byte():
    before, expected = np.zeros((4, 128), np.int8), np.zeros((4, 128), np.int8)
    expected[1] = 5
    actual = expected + np.int8(0)
    actual[1, 7] = 6
    assert compare(actual, expected, "int8", before=before).ok
    actual[2, 7] = 1
    assert compare(actual, expected, "int8", before=before).counts["stray"] == 1


# --- bf16


def bf16(actual, expected, **options):
    return compare(np.array(actual, np.uint16).view(BF16), np.array(expected, np.uint16).view(BF16), "bf16", **options)


@pytest.mark.parametrize(
    ("actual", "expected", "distance"),
    [
        (0x3F80, 0x3F80, 0),
        (0x3F81, 0x3F80, 1),
        (0x3F7F, 0x3F80, 1),
        (0xBF81, 0xBF7F, 2),
        (0x3F90, 0x3F80, 16),
        (0xBF80, 0x3F80, 2 * 0x3F80),
        (0x7F7F, 0xFF7F, 2 * 0x7F7F),
        (0x0001, 0x8001, 2),
        (0x0000, 0x8000, 0),
    ],
)
def test_steps_of_bf16(actual, expected, distance):
    result = bf16([actual], [expected], max_share=1)
    assert result.elements.steps == ((distance, 1),)
    assert result.ok == (distance <= 1)
    assert result.elements.zeros == (actual != expected and distance == 0)


def test_nan_and_infinity_of_bf16():
    assert bf16([0x7FC0, 0xFFFF, 0x7F80, 0xFF80], [0x7F81, 0x7FC0, 0x7F80, 0xFF80], max_share=0).ok
    for actual, expected in [(0x7F80, 0xFF80), (0x7F80, 0x7F7F), (0x7FC0, 0x7F80), (0, 0x7FC0), (0x7FC0, 0)]:
        result = bf16([actual], [expected], max_share=1, max_steps=100_000)
        assert not result.ok
        assert result.elements.apart == 1


def test_what_cancels_out_is_measured_by_its_row():
    """Beside 1, differences of 2**-16 are a step at most; beside 0.5 or in a row of its own they are not."""
    one, half = 0x3F80, 0x3F00
    small, other = 0x3780, 0xB700  # 2**-16 and -2**-17
    assert bf16([one, small], [one, 0], max_share=1).elements.histogram == {0: 1, 1: 1}
    assert not bf16([one, small], [one, other], max_share=1).ok
    assert not bf16([half, small], [half, 0], max_share=1).ok
    assert not bf16([[one, one], [small, 0]], [[one, one], [0, 0]], max_share=1).ok
    # The largest number that is expected, not one that came.
    assert not bf16([one, small], [0, 0], max_share=1).ok
    # What is no number is no measure.
    assert not bf16([0x7F80, small], [0x7F80, 0], max_share=1).ok


def test_the_share_of_bf16():
    expected = np.full(1000, 0x3F80)
    for unequal, ok in ((10, True), (11, False)):
        actual = expected.copy()
        actual[:unequal] += 1
        assert bf16(actual, expected).ok == ok
    actual[10] = 0x3F80
    assert not bf16(actual, expected, max_share=0.009).ok
    actual[0] += 1
    assert not bf16(actual, expected).ok


# --- mx


def mx(actual, expected, **options):
    """Each side: a list of codes for one block, or more, and the bytes of the scales."""
    sides = [
        (np.array(codes, np.uint8).view(E4M3FN), np.array(scale, np.uint8).view(E8M0))
        for codes, scale in (actual, expected, *options.pop("before", ()))
    ]
    options |= {"before": sides[2][0]} if len(sides) == 3 else {}
    return compare(sides[0][0], sides[1][0], "mx", scale=[scale for _, scale in sides], **options)


def test_equal_products_with_other_scales():
    """1.0 * 2**3 is 2.0 * 2**2; the scale bytes then are not equal, and that decides nothing."""
    result = mx(([0x38] * 64, [130, 127]), ([0x40] * 32 + [0x38] * 32, [129, 127]), max_share=0)
    assert result.ok
    assert (result.elements.scales, result.elements.equal_scales) == (2, 1)
    assert (result.elements.beyond, result.elements.apart, result.elements.where) == (0, 0, None)
    assert "scale bytes equal: 1 of 2 (50.00%)" in result.summary()


def test_a_scale_that_is_wrong_is_seen():
    result = mx(([0x38] * 32, [128]), ([0x38] * 32, [127]))
    assert not result.ok
    assert result.elements.apart == 32
    assert result.elements.where == (0,)
    assert result.first["different"].actual == bytes([0x38, 128] * 4)
    assert result.first["different"].expected == bytes([0x38, 127] * 4)


def test_a_step_apart_may_be_one_in_a_hundred():
    codes = np.full(3200, 0x38)
    for wrong, ok in ((32, True), (33, False)):
        actual = codes.copy()
        actual[:wrong] += 1
        result = mx((actual, [127] * 100), (codes, [127] * 100))
        assert result.ok == ok
        assert result.elements.beyond == wrong
        assert result.elements.apart == 0
    actual = codes.copy()
    actual[77] += 2
    result = mx((actual, [127] * 100), (codes, [127] * 100))
    assert not result.ok
    assert (result.elements.apart, result.elements.where) == (1, (77,))
    assert mx((actual, [127] * 100), (codes, [127] * 100), max_steps=2).ok
    assert mx((codes + 1, [127] * 100), (codes, [127] * 100), max_share=1).ok
    assert mx((codes + 1, [127] * 100), (codes, [127] * 100), rtol=0.125).ok  # 1.125 against 1


def test_the_coarser_side_gives_the_step():
    """Next to a power of two one side has 2**e and ..., 3 steps of 2**-9; the other 2**(e + 1) and 1 or 2 of them."""
    fine = ([0x03] * 32, [120])  # 3 * 2**-9 * 2**-7
    assert mx(([0x01] * 32, [121]), fine, max_share=1).ok  # 2 of the fine steps
    assert mx(([0x02] * 32, [121]), fine, max_share=1).ok  # 4
    assert not mx(([0x00] * 32, [121]), fine, max_share=1).ok
    assert not mx(([0x03] * 32, [121]), fine, max_share=1).ok
    assert not mx(([0x01] * 32, [120]), fine, max_share=1).ok


def test_zeros_are_equal_whatever_their_scale():
    assert mx(([0x00] * 32, [0]), ([0x80] * 32, [200]), max_share=0).ok


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        (([0] * 32, [255]), ([0] * 32, [255]), True),
        (([0] * 31 + [1], [255]), ([0] * 32, [255]), False),
        (([0] * 32, [254]), ([0] * 32, [255]), False),
        (([0] * 32, [255]), ([0] * 32, [254]), False),
        (([0x7F] * 32, [127]), ([0x7F] * 32, [127]), True),
        (([0x7F] * 32, [127]), ([0xFF] * 32, [127]), False),
        (([0x7F] * 32, [127]), ([0x7E] * 32, [127]), False),
    ],
)
def test_where_a_part_is_nan_bytes_are_equal(actual, expected, ok):
    result = mx(actual, expected, max_share=1, max_steps=10**6)
    assert result.ok == ok
    assert (result.elements.apart > 0) == (not ok)


def product(code, scale):
    exponent, mantissa = code >> 3 & 15, code & 7
    number = Fraction(mantissa, 8) / 64 if exponent == 0 else Fraction(8 + mantissa, 8) * Fraction(2) ** (exponent - 7)
    step = Fraction(2) ** (max(exponent, 1) - 10)
    power = Fraction(2) ** (scale - 127)
    return (-number if code & 0x80 else number) * power, step * power


def test_any_pairs_by_fractions():
    r = np.random.default_rng(0)
    expected = r.integers(0, 127, 3200) | r.choice([0, 0x80], 3200)
    actual = np.where(r.random(3200) < 0.5, expected, np.clip((expected & 0x7F) + r.integers(-3, 4, 3200), 0, 0x7E))
    scales = r.integers(0, 255, 100)
    others = np.clip(scales + r.choice([-1, 0, 0, 0, 1], 100), 0, 254)
    result = mx((actual, others), (expected, scales))
    apart = beyond = 0
    for i, (a, e) in enumerate(zip(actual.tolist(), expected.tolist(), strict=True)):
        (x, x_step), (y, y_step) = product(a, int(others[i // 32])), product(e, int(scales[i // 32]))
        apart += abs(x - y) > max(x_step, y_step)
        beyond += abs(x - y) > Fraction(0.01) * abs(y)
    assert 0 < apart < beyond < 3200
    assert (result.elements.apart, result.elements.beyond, result.elements.compared) == (apart, beyond, 3200)
    assert result.elements.equal_scales == (scales == others).sum()


@pytest.mark.parametrize("block", [1 << 19, 128, 300])
def test_rows_before_and_after(block, monkeypatch):
    """A cache [2, 1, 4, 128]: one row written a step apart, one not written, and one stray byte in a scale."""
    monkeypatch.setattr(rows_module, "_BLOCK", block)
    before = np.full((2, 1, 4, 128), 0x30, np.uint8), np.full((2, 1, 4, 4), 100, np.uint8)
    expected = before[0].copy(), before[1].copy()
    for slot in (1, 6):
        expected[0][slot // 4, 0, slot % 4], expected[1][slot // 4, 0, slot % 4] = 0x40, 120
    actual = expected[0].copy(), expected[1].copy()
    actual[0][0, 0, 1, 5] = 0x41
    result = mx(actual, expected, before=[before])
    assert result.counts == {"right": 2, "missing": 0, "wrong": 0, "stray": 0, "untouched": 6}
    assert result.ok
    assert (result.elements.compared, result.elements.scales, result.elements.where) == (256, 8, (0, 0, 1, 5))
    for side in (0, 1):
        actual[side][1, 0, 2] = before[side][1, 0, 2]
    actual[1][0, 0, 0, 3] = 101
    result = mx(actual, expected, before=[before])
    assert result.counts == {"right": 1, "missing": 1, "wrong": 0, "stray": 1, "untouched": 5}
    assert (result.first["stray"].index, result.first["stray"].position) == ((0, 0, 0), 96)
    assert result.first["missing"].index == (1, 0, 2)


def test_strides_and_empty_arrays():
    codes = np.arange(2 * 3 * 128, dtype=np.uint32).astype(np.uint8).reshape(2, 3, 128) % 0x70
    scale = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    turned = [np.ascontiguousarray(array[..., ::-1])[..., ::-1] for array in (codes, scale)]
    assert mx((codes, scale), (codes, scale)).elements.equal_scales == 24
    views = [array.view(dtype) for array, dtype in zip(turned, (E4M3FN, E8M0), strict=True)]
    assert compare(views[0], codes.view(E4M3FN), "mx", scale=(views[1], scale.view(E8M0)), max_share=0).ok
    empty = np.zeros((0, 128), np.uint8), np.zeros((0, 4), np.uint8)
    assert mx(empty, empty).ok
    assert mx(empty, empty).summary()


def test_memory_stays_modest():
    codes = np.broadcast_to(np.array(0x38, np.uint8).view(E4M3FN), (64, 1 << 10, 128))
    scale = np.broadcast_to(np.array(127, np.uint8).view(E8M0), (64, 1 << 10, 4))
    tracemalloc.start()
    try:
        assert compare(codes, codes, "mx", scale=(scale, scale)).ok
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_result_is_a_value():
    result = mx(([0x38] * 32, [128]), ([0x38] * 32, [127]))
    assert pickle.loads(pickle.dumps(result)) == result == copy.deepcopy(result)
    assert hash(result) == hash(copy.deepcopy(result))


NUMBERS, SCALES = np.zeros((3, 128), E4M3FN), np.zeros((3, 4), np.uint8).view(E8M0)


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        (None, ValueError, "scale: expected for rule 'mx' a tuple of scales, those of actual, expected, got NoneType"),
        ((SCALES,), ValueError, "scale: expected for rule 'mx' a tuple of scales, those of actual, expected, got 1 it"),
        (SCALES, ValueError, "scale: expected for rule 'mx' a tuple of scales, those of actual, expected, got ndarray"),
        ((SCALES, SCALES.view(np.uint8)), TypeError, "scale: expected arrays of float8_e8m0fnu, got uint8 as item 1"),
        ((None, SCALES), TypeError, "scale: expected arrays of float8_e8m0fnu, got NoneType as item 0"),
        ((SCALES, SCALES[:2]), ValueError, "scale: expected one for every 32 numbers of a last axis, got shape (2, 4)"),
        (
            (SCALES[:, :1], SCALES),
            ValueError,
            "scale: expected one for every 32 numbers of a last axis, got shape (3, ",
        ),
        ((SCALES[0, 0], SCALES), TypeError, "scale: expected arrays of float8_e8m0fnu, got"),
    ],
)
def test_scales_are_checked(scale, error, message):
    with pytest.raises(error) as raised:
        compare(NUMBERS, NUMBERS, "mx", scale=scale)
    assert str(raised.value).startswith(message), str(raised.value)


def test_scales_of_before_are_asked_for():
    with pytest.raises(ValueError, match=r"those of actual, expected, before, got 2 items"):
        compare(NUMBERS, NUMBERS, "mx", scale=(SCALES, SCALES), before=NUMBERS)
    assert compare(NUMBERS, NUMBERS, "mx", scale=(SCALES,) * 3, before=NUMBERS).counts["untouched"] == 3


def test_other_rules_take_no_scales():
    with pytest.raises(ValueError, match=r"^scale: expected None, since rule 'fp8' takes no scales"):
        compare(NUMBERS, NUMBERS, "fp8", scale=(SCALES, SCALES))


@pytest.mark.parametrize(("rule", "dtype"), [("bf16", np.float16), ("int8", np.uint8), ("mx", np.uint8)])
def test_dtypes_that_a_rule_does_not_compare(rule, dtype):
    with pytest.raises(TypeError, match=f"^expected: rule '{rule}' compares .*, got "):
        compare(np.zeros(32, dtype), np.zeros(32, dtype), rule)


@pytest.mark.parametrize(
    ("rule", "dtype", "limit", "takes"),
    [
        ("exact", np.int8, "max_steps", "takes no limits"),
        ("exact", np.int8, "max_share", "takes no limits"),
        ("exact", np.int8, "rtol", "takes no limits"),
        ("fp8", E4M3FN, "rtol", "takes max_steps and max_share"),
        ("bf16", ml_dtypes.bfloat16, "rtol", "takes max_steps and max_share"),
        ("int8", np.int8, "rtol", "takes max_steps and max_share"),
        ("relative", np.float32, "max_steps", "takes rtol"),
        ("relative", np.float32, "max_share", "takes rtol"),
    ],
)
def test_a_limit_that_a_rule_does_not_use_is_refused(rule, dtype, limit, takes):
    array = np.zeros(4, dtype)
    with pytest.raises(ValueError, match=r"^\w") as raised:
        compare(array, array, rule, **{limit: 1})
    assert str(raised.value) == f"{limit}: expected None, since rule '{rule}' does not use it; it {takes}"


@pytest.mark.parametrize(("limits", "words"), [({}, "1 step apart"), ({"max_steps": 2}, "2 steps apart")])
def test_one_step_is_singular(limits, words):
    result = compare(NUMBERS, NUMBERS, "mx", scale=(SCALES, SCALES), **limits)
    assert f"more than {words}: 0" in result.summary()
