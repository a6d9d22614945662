# SPDX-License-Identifier: Apache-2.0
"""The dtype table against the header's enum and the widths of CANN's documentation."""

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache.dtypes import (
    BY_DTYPE,
    FP8_E4M3FN,
    FP8_E5M2,
    FP8_E8M0,
    INT8,
    TABLE,
    WITHOUT_DTYPE,
    dtype_named,
    dtype_of,
    hint_for,
    is_one_of,
    name_of,
)
from aclnn_kvcache.native.prototypes import declarations

BYTES = {
    "FLOAT": 4,
    "FLOAT16": 2,
    "INT8": 1,
    "INT32": 4,
    "UINT8": 1,
    "INT16": 2,
    "UINT16": 2,
    "UINT32": 4,
    "INT64": 8,
    "UINT64": 8,
    "DOUBLE": 8,
    "BOOL": 1,
    "COMPLEX64": 8,
    "COMPLEX128": 16,
    "BF16": 2,
    "FLOAT8_E5M2": 1,
    "FLOAT8_E4M3FN": 1,
    "FLOAT8_E8M0": 1,
}


@pytest.mark.parametrize("row", TABLE, ids=[row.acl_name for row in TABLE])
def test_value_is_the_header_s_and_item_size_is_cann_s(row):
    assert row.acl_value == declarations().constants[f"ACL_{row.acl_name}"]
    assert row.dtype.itemsize == BYTES[row.acl_name]


def test_every_row_is_there_once():
    assert sorted(row.acl_name for row in TABLE) == sorted(BYTES)
    assert len({row.acl_value for row in TABLE}) == len(BY_DTYPE) == len(TABLE)


@pytest.mark.parametrize(
    ("dtype", "name", "value"),
    [
        (np.float32, "FLOAT", 0),
        (np.float16, "FLOAT16", 1),
        (np.int32, "INT32", 3),
        (np.int64, "INT64", 9),
        (np.longlong, "INT64", 9),
        (np.float64, "DOUBLE", 11),
        (np.bool_, "BOOL", 12),
        (ml_dtypes.bfloat16, "BF16", 27),
        (ml_dtypes.float8_e5m2, "FLOAT8_E5M2", 35),
        (ml_dtypes.float8_e4m3fn, "FLOAT8_E4M3FN", 36),
        (ml_dtypes.float8_e8m0fnu, "FLOAT8_E8M0", 37),
    ],
)
def test_lookup_by_dtype(dtype, name, value):
    assert BY_DTYPE[np.dtype(dtype)][:2] == (name, value)


@pytest.mark.parametrize(
    "dtype",
    [">f4", ">i4", ">i8", "V1", "V2", "M8[ns]", "U1", "O", ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz],
)
def test_no_dtype_is_guessed(dtype):
    assert np.dtype(dtype) not in BY_DTYPE


def test_the_other_byte_order_is_named_and_its_hint_works():
    array = np.array([1.5, -2], ">f4")
    assert name_of(array.dtype) == "float32 in the other byte order (>f4)"
    hint = hint_for(array.dtype)
    converted = eval(hint.removeprefix("convert it: "), {"array": array})
    assert converted.dtype == np.float32
    assert converted.tolist() == [1.5, -2]


@pytest.mark.parametrize("dtype", ["u1", "i1", "V1"])
def test_raw_bytes_get_the_hint_that_makes_them_fp8(dtype):
    array = np.array([0x38, 0xB8], "u1").view(dtype)
    hint = hint_for(array.dtype, BY_DTYPE)
    assert "say which" in hint
    for part, fp8 in (
        ("array.view(ml_dtypes.float8_e4m3fn)", ml_dtypes.float8_e4m3fn),
        (".view(ml_dtypes.float8_e5m2)", ml_dtypes.float8_e5m2),
    ):
        assert part in hint
        assert array.view(fp8).view("u1").tolist() == [0x38, 0xB8]


@pytest.mark.parametrize("dtype", ["u2", "i2", "V2"])
def test_raw_words_get_the_hint_that_makes_them_bfloat16(dtype):
    array = np.array([0x3F80, 0xC000], "u2").view(dtype)
    hint = hint_for(array.dtype, BY_DTYPE)
    assert "say so" in hint
    converted = eval(hint.partition(": ")[2], {"array": array, "ml_dtypes": ml_dtypes})
    assert converted.astype(np.float32).tolist() == [1, -2]


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "V3", "V4", "?", "O", "M8[s]", "float8_e4m3fn", "bfloat16"])
def test_no_hint_where_nothing_is_to_be_said(dtype):
    assert hint_for(np.dtype(dtype), BY_DTYPE) == ""


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("f4", "float32"), ("bfloat16", "bfloat16"), ("V3", "|V3"), ([("a", "u1")], "[('a', 'u1')]"), ("O", "object")],
)
def test_names(dtype, name):
    assert name_of(np.dtype(dtype)) == name


OTHER_FP8 = (
    "float8_e4m3",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e4m3b11fnuz",
    "float8_e3m4",
    "float8_e8m0fnu",
)


@pytest.mark.parametrize(
    "dtype",
    [name for name in OTHER_FP8 if hasattr(ml_dtypes, name)],  # some came with later releases
)
def test_other_fp8_formats_get_hints_that_work(dtype):
    array = np.array([1, 0.5], np.float32).astype(getattr(ml_dtypes, dtype))
    hint = hint_for(array.dtype, [FP8_E4M3FN])
    values, codes = (part.rpartition(" ")[0] for part in hint.partition(": ")[2].replace(" the", "").split(", "))
    scope = {"array": array, "ml_dtypes": ml_dtypes}
    assert eval(values.removesuffix(" converts"), scope).view("u1").tolist() == [0x38, 0x30]
    assert eval(codes.removesuffix(" keeps"), scope).tobytes() == array.tobytes()


def test_numbers_get_the_conversion_that_fits():
    int32, int64, fp8 = (
        np.dtype(np.int32),
        np.dtype(np.int64),
        [np.dtype(ml_dtypes.float8_e5m2), np.dtype(ml_dtypes.float8_e4m3fn)],
    )
    assert hint_for(np.dtype(np.int8), [int32]) == "array.astype('int32') converts it"
    assert hint_for(np.dtype(np.uint64), [int32, int64]) == "array.astype('int64') converts it if its values fit"
    assert hint_for(np.dtype(np.int64), [int32]) == "array.astype('int32') converts it if its values fit"
    assert hint_for(np.dtype(np.float64), fp8).startswith("quantise it on purpose: array.astype(")
    assert hint_for(np.dtype(bool), [int32, int64]) == ""


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, ml_dtypes.bfloat16])
def test_numbers_with_fractions_are_never_made_integers(dtype):
    assert hint_for(np.dtype(dtype), [np.dtype(np.int32), np.dtype(np.int64)]) == ""


def test_a_conversion_that_rounds_says_so():
    float32, bfloat16 = np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)
    assert hint_for(np.dtype(np.float64), [float32]) == "array.astype('float32') rounds it"
    assert hint_for(float32, [bfloat16]) == "array.astype('bfloat16') rounds it"
    assert hint_for(bfloat16, [float32]) == "array.astype('float32') converts it"
    assert hint_for(np.dtype(np.complex128), [float32]) == hint_for(np.dtype(np.int64), [float32]) == ""


def test_a_type_without_arrays_is_none_of_those_with():
    assert is_one_of(FP8_E8M0, [np.dtype("f4"), FP8_E8M0])
    assert not is_one_of("HIFLOAT8", [FP8_E8M0])
    assert not is_one_of(np.dtype("u1"), [FP8_E8M0])


def test_raw_bytes_get_the_hint_that_makes_them_exponents():
    array = np.array([0x7F, 0x80], "u1")
    converted = eval(hint_for(array.dtype, [FP8_E8M0]).partition(": ")[2], {"array": array, "ml_dtypes": ml_dtypes})
    assert converted.astype(np.float32).tolist() == [1, 2]


def test_codes_of_one_byte_are_never_converted():
    assert hint_for(FP8_E4M3FN, [INT8]) == hint_for(np.dtype("f4"), [FP8_E8M0]) == ""


def test_no_fp8_hint_where_fp8_is_not_expected():
    assert hint_for(np.dtype(np.int8), [np.dtype(np.int32)]) == "array.astype('int32') converts it"
    hint = hint_for(np.dtype(np.int8), [np.dtype(np.int32), np.dtype(np.int64)])
    assert hint == "array.astype('int64') converts it"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
def test_what_is_not_quantised_is_told_how_and_at_what_price(dtype):
    for allowed in ([FP8_E4M3FN], [FP8_E4M3FN, FP8_E5M2]):
        hint = hint_for(np.dtype(dtype), allowed)
        assert hint == (
            "quantise it on purpose: array.astype(ml_dtypes.float8_e4m3fn) rounds to FP8, and applies no scale"
        )
    assert hint_for(FP8_E5M2, [FP8_E4M3FN]).startswith("its codes stand for other values: ")


def test_every_name_of_a_dtype_is_known():
    for row in TABLE:
        for name in (row.acl_name, f"ACL_{row.acl_name}", row.dtype.name):
            assert dtype_of(name) == dtype_named(name) == row.dtype
    for name in WITHOUT_DTYPE:
        assert dtype_of(f"ACL_{name}") == dtype_named(name) == name
    assert (dtype_named("f4"), dtype_of("f4")) == (None, np.float32)


@pytest.mark.parametrize("named", [None, "fp8", "", 5, "(2", "O" * 5000, "f4,("])
def test_what_is_no_dtype_is_a_type_error(named):
    with pytest.raises(TypeError):
        dtype_of(named)
