# SPDX-License-Identifier: Apache-2.0
"""The exact comparison: every byte counts, and the report says what kind of fault a row shows."""

import copy
import importlib
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

# The package gives the name `compare` to the function: its modules are not reached through it.
rows_module = importlib.import_module("aclnn_kvcache.compare.rows")

E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
DTYPES = [
    np.dtype(d) for d in ("u1", "i4", "i8", ">i2", "f2", "f4", "f8", "c8", "c16", "?", "V3", "S5", "u1,f8,u2", "M8[s]")
] + [np.dtype(getattr(ml_dtypes, name)) for name in ("float8_e4m3fn", "float8_e5m2", "bfloat16")]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        yield


@pytest.fixture(params=[rows_module._BLOCK, 1, 2, 5], ids="block={}".format)
def block(request, monkeypatch):
    """Run with blocks that cut small arrays in every way."""
    monkeypatch.setattr(rows_module, "_BLOCK", request.param)


def filled(dtype, shape):
    size = int(np.prod(shape)) * dtype.itemsize
    return (np.arange(size, dtype=np.uint32) * 7 % 256).astype(np.uint8).view(dtype).reshape(shape)


def test_nan_bytes_equal_themselves():
    fp8 = np.array([[0x7F, 0xFF, 0x00]], np.uint8).view(E4M3FN)
    assert compare(fp8, fp8.copy()).ok
    assert not compare(fp8, np.array([[0x7F, 0x7F, 0x00]], np.uint8).view(E4M3FN)).ok
    quiet = np.array([0x7FC00000, 0x7F800001], np.uint32)
    assert compare(quiet.view(np.float32), quiet.copy().view(np.float32)).ok
    assert not compare(quiet.view(np.float32), (quiet + 1).view(np.float32)).ok


def test_minus_zero_differs_from_plus_zero():
    result = compare(np.array([[1, -0.0]], np.float32), np.array([[1, 0]], np.float32))
    assert not result.ok
    assert result.first["different"].position == 1
    assert result.first["different"].actual == bytes.fromhex("00000080")
    assert result.first["different"].expected == bytes.fromhex("00000000")


@pytest.mark.usefixtures("block")
def test_rows_without_before():
    expected = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    actual = expected.copy()
    actual[0, 2, 1] = actual[1, 1, 3] = 0xEE
    result = compare(actual, expected)
    assert not result.ok
    assert not result
    assert result.counts == {"equal": 4, "different": 2}
    row = result.first["different"]
    assert (row.index, row.position) == ((0, 2), 1)
    assert (row.actual, row.expected) == (b"\xee\x0a\x0b", b"\x09\x0a\x0b")
    assert result.first["equal"].index == (0, 0)
    assert result.summary() == (
        "exact: NOT ok; rows of uint8 [2, 3, 4]: 4 equal, 2 different\n"
        "  first different: row [0, 2, :], element 1: actual ee 0a 0b, expected 09 0a 0b"
    )


def scattered():
    """Six rows: two should change."""
    before = np.full((3, 2, 4), 0xAA, np.uint8)
    expected = before.copy()
    expected[0, 1], expected[2, 0] = 0x38, 0x40
    return before, expected


@pytest.mark.usefixtures("block")
def test_all_right():
    before, expected = scattered()
    result = compare(expected.copy(), expected, before=before)
    assert result.ok
    assert result
    assert result.counts == {"right": 2, "missing": 0, "wrong": 0, "stray": 0, "untouched": 4}
    assert result.first["right"].index == (0, 1)
    assert result.first["untouched"].index == (0, 0)
    assert result.summary() == "exact: ok; rows of uint8 [3, 2, 4]: 2 right, 0 missing, 0 wrong, 0 stray, 4 untouched"


@pytest.mark.usefixtures("block")
def test_each_kind_of_fault():
    before, expected = scattered()
    actual = before.copy()
    actual[2, 0] = [0x40, 0x40, 0x41, 0x40]
    actual[1, 1, 3] = 0
    result = compare(actual, expected, before=before)
    assert result.counts == {"right": 0, "missing": 1, "wrong": 1, "stray": 1, "untouched": 3}
    assert "right" not in result.first
    assert [(kind, row.index, row.position) for kind, row in result.first.items()] == [
        ("missing", (0, 1), 0),
        ("wrong", (2, 0), 2),
        ("stray", (1, 1), 3),
        ("untouched", (0, 0), 0),
    ]
    assert result.summary().splitlines() == [
        "exact: NOT ok; rows of uint8 [3, 2, 4]: 0 right, 1 missing, 1 wrong, 1 stray, 3 untouched",
        "  first missing: row [0, 1, :], element 0: actual aa aa aa aa, expected 38 38 38 38",
        "  first wrong: row [2, 0, :], element 2: actual 41 40, expected 40 40",
        "  first stray: row [1, 1, :], element 3: actual 00, expected aa",
    ]


@pytest.mark.parametrize("fault", ["missing", "wrong", "stray"])
def test_one_fault_is_enough(fault):
    before, expected = scattered()
    actual = expected.copy()
    actual[0, 1] = before[0, 1] if fault == "missing" else expected[0, 1]
    if fault == "wrong":
        actual[0, 1, 0] = 0xAA  # half written
    if fault == "stray":
        actual[0, 0, 0] = 0
    result = compare(actual, expected, before=before)
    assert not result.ok
    assert result.counts[fault] == 1


def test_a_write_into_the_gap_between_padded_rows_is_stray():
    before = np.full((3, 2, 4, 16), 0xAA, np.uint8)
    expected = before.copy()
    expected[2, 1, 3, :8] = 0x40
    actual = expected.copy()
    actual[0, 0, 1, 8] = 0x40
    assert compare(actual[..., :8], expected[..., :8], before=before[..., :8]).ok
    result = compare(actual, expected, before=before)
    assert result.counts == {"right": 1, "missing": 0, "wrong": 0, "stray": 1, "untouched": 22}
    assert (result.first["stray"].index, result.first["stray"].position) == ((0, 0, 1), 8)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (7,), (2, 3), (2, 1, 3, 2)], ids=str)
def test_every_byte_of_every_dtype_and_rank(dtype, shape):
    expected = filled(dtype, shape)
    assert compare(expected.copy(), expected).ok
    for byte in range(expected.nbytes):
        flat = np.frombuffer(expected.tobytes(), np.uint8).copy()
        flat[byte] ^= 0x80
        actual = flat.view(dtype).reshape(shape)
        result = compare(actual, expected)
        rows = int(np.prod(shape[:-1]))
        assert result.counts == {"equal": rows - 1, "different": 1}
        row, element = result.first["different"], byte // dtype.itemsize
        assert (*row.index, row.position) == (np.unravel_index(element, shape) if shape else (0,))
        assert row.actual != row.expected
        assert len(row.actual) % dtype.itemsize == 0


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (2, 0, 5)], ids=str)
def test_empty_arrays_have_no_rows(shape):
    empty = np.zeros(shape, np.float32)
    result = compare(empty, empty.copy(), before=empty)
    assert result.ok
    assert set(result.counts.values()) == {0}
    assert result.first == {}
    assert "0 right" in result.summary()


def test_strides_do_not_matter():
    expected = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
    views = [
        np.asfortranarray(expected),
        np.ascontiguousarray(expected[::-1, ::-1, ::-1])[::-1, ::-1, ::-1],
        np.repeat(expected, 3, axis=2)[..., ::3],
    ]
    for view in views:
        assert not view.flags.c_contiguous
        assert compare(view, expected).counts == {"equal": 20, "different": 0}
    assert compare(np.broadcast_to(np.float32(2), (3, 4)), np.full((3, 4), 2, np.float32)).ok
    assert not compare(expected[:, :, ::-1], expected).ok


def test_inputs_stay_and_may_be_read_only():
    before, expected = scattered()
    for array in (before, expected):
        array.setflags(write=False)
    assert compare(expected, expected, before=before).ok


@st.composite
def triples(draw):
    shape = draw(st.lists(st.integers(1, 3), max_size=4).map(tuple))
    size = int(np.prod(shape))
    bytes_ = st.lists(st.integers(0, 1), min_size=2 * size, max_size=2 * size)
    return [np.array(draw(bytes_), np.uint8).view(np.float16).reshape(shape) for _ in range(3)]


def kind_of(actual, expected, before):
    if expected == before:
        return "untouched" if actual == before else "stray"
    return "right" if actual == expected else "missing" if actual == before else "wrong"


@given(triples(), st.sampled_from([1 << 22, 1, 2, 3]))
def test_any_arrays_equal_the_plain_loop(arrays, block):
    actual, expected, before = arrays
    kinds, first = Counter(), {}
    for index in np.ndindex(actual.shape[:-1]):
        kind = kind_of(*(array[index].tobytes() for array in arrays))
        kinds[kind] += 1
        first.setdefault(kind, index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "_BLOCK", block)
        result = compare(actual, expected, before=before)
        plain = compare(actual, expected)
    assert {kind: count for kind, count in result.counts.items() if count} == kinds
    assert {kind: row.index for kind, row in result.first.items()} == first
    assert result.ok == (kinds.keys() <= {"right", "untouched"})
    assert plain.ok == (actual.tobytes() == expected.tobytes())


@pytest.mark.parametrize("shape", [(1 << 28,), (2, 1 << 27), (64, 1 << 15, 128), (2, 3, 1 << 24, 1)], ids=str)
def test_memory_stays_modest(shape):
    """Stand-ins of a quarter of a GiB that take no memory themselves; only the temporaries are counted."""
    zero, one = (np.broadcast_to(np.uint8(fill), shape) for fill in (0, 1))
    tracemalloc.start()
    try:
        result = compare(one, one, before=zero)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.counts["right"] == np.prod(shape[:-1], dtype=int)
    assert peak < 64 << 20


def test_result_is_a_value():
    before, expected = scattered()
    result = compare(before, expected, before=before)
    assert pickle.loads(pickle.dumps(result)) == result == copy.deepcopy(result)
    assert hash(result) == hash(copy.deepcopy(result))
    with pytest.raises(AttributeError):
        result.rule = "other"
    assert (result.rule, result.shape, result.dtype) == ("exact", (3, 2, 4), "uint8")


@pytest.mark.parametrize("rule", ["FP8", "bytes", "", None])
def test_unknown_rules_are_refused(rule):
    with pytest.raises(
        ValueError, match=r"^rule: expected one of 'exact', 'fp8', 'bf16', 'int8', 'relative', 'mx', got "
    ):
        compare(np.zeros(1), np.zeros(1), rule)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"^actual: expected shape \(2, 3\) as expected has, got \(3,\)$"):
        compare(np.zeros(3), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"^before: expected shape \(3,\) as expected has, got \(1, 3\)$"):
        compare(np.zeros(3), np.zeros(3), before=np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        ("u1", E4M3FN, "dtype float8_e4m3fn as expected has, got uint8"),
        (ml_dtypes.float8_e5m2, E4M3FN, "dtype float8_e4m3fn as expected has, got float8_e5m2"),
        (">f4", "<f4", "dtype float32 as expected has, got >f4"),
    ],
)
def test_dtypes_must_agree(actual, expected, text):
    with pytest.raises(TypeError, match=f"^actual: expected {text}$"):
        compare(np.zeros(2, actual), np.zeros(2, expected))
    with pytest.raises(TypeError, match=f"^before: expected {text}$"):
        compare(np.zeros(2, expected), np.zeros(2, expected), before=np.zeros(2, actual))


def test_only_arrays_made_of_bytes():
    with pytest.raises(TypeError, match=r"^expected: expected a dtype made of bytes, got object$"):
        compare(np.zeros(2, object), np.zeros(2, object))
    with pytest.raises(TypeError, match=r"^actual: expected a NumPy array, got list$"):
        compare([1, 2], np.zeros(2))
    with pytest.raises(TypeError, match=r"^expected: expected a NumPy array, got NoneType$"):
        compare(np.zeros(2), None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rule": []}, "rule: expected one of"),
        ({"rule": None}, "rule: expected one of"),
        ({"rule": "relative", "rtol": "x"}, "rtol: expected a finite number"),
        ({"rule": "relative", "rtol": [1e-6]}, "rtol: expected a finite number"),
        ({"rule": "bf16", "max_share": "x"}, "max_share: expected a share"),
    ],
)
def test_options_of_another_type_are_named(options, text):
    with pytest.raises(ValueError, match=text):
        compare(np.zeros(2), np.zeros(2), **options)


def test_a_mask_is_not_ignored():
    with pytest.raises(TypeError, match="actual: expected a NumPy array, got MaskedArray"):
        compare(np.ma.masked_array([1.0, 2.0]), np.ones(2))
