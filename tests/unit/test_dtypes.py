# SPDX-License-Identifier: Apache-2.0
"""The dtype table against the header's enum and the widths of CANN's documentation."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from aclnn_kvcache.dtypes import BY_DTYPE, FP8_E8M0, TABLE, hint_for, name_of
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
    **({"FLOAT8_E8M0": 1} if hasattr(ml_dtypes, "float8_e8m0fnu") else {}),
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


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "V3", "V4", ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16])
def test_no_hint_where_nothing_is_to_be_said(dtype):
    assert hint_for(np.dtype(dtype), BY_DTYPE) == ""
    assert name_of(np.dtype(dtype)) == np.dtype(dtype).name


SCALES_PROGRAM = """
import ml_dtypes
if hasattr(ml_dtypes, "float8_e8m0fnu"):
    del ml_dtypes.float8_e8m0fnu
import numpy as np
from aclnn_kvcache.dtypes import BY_DTYPE, FP8_E8M0, dtype_of, hint_for, is_one_of
assert dtype_of("FLOAT8_E8M0") == FP8_E8M0 == "FLOAT8_E8M0"
assert all(row.acl_name != "FLOAT8_E8M0" for row in BY_DTYPE.values())
assert is_one_of(FP8_E8M0, [np.dtype("f4"), FP8_E8M0]) and not is_one_of(np.dtype("u1"), [FP8_E8M0])
print(hint_for(np.dtype("u1"), [FP8_E8M0]))
"""


def test_without_exponents_in_ml_dtypes_the_type_is_one_without_arrays():
    done = subprocess.run([sys.executable, "-c", SCALES_PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "arrays of that type need float8_e8m0fnu of ml_dtypes 0.5 or later\n"


@pytest.mark.skipif(isinstance(FP8_E8M0, str), reason="ml_dtypes before 0.5")
def test_raw_bytes_get_the_hint_that_makes_them_exponents():
    array = np.array([0x7F, 0x80], "u1")
    converted = eval(hint_for(array.dtype, [FP8_E8M0]).partition(": ")[2], {"array": array, "ml_dtypes": ml_dtypes})
    assert converted.astype(np.float32).tolist() == [1, 2]


def test_codes_of_one_byte_are_never_converted():
    assert hint_for(np.dtype(ml_dtypes.float8_e4m3fn), [np.dtype(np.int8)]) == ""


def test_no_fp8_hint_where_fp8_is_not_expected():
    assert hint_for(np.dtype(np.int8), [np.dtype(np.int32)]) == "array.astype('int32') converts it"
    assert hint_for(np.dtype(np.int8), [np.dtype(np.int32), np.dtype(np.int64)]) == ""
