# SPDX-License-Identifier: Apache-2.0
"""One table of data types: NumPy and ml_dtypes on one side, aclDataType on the other."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np


class DataType(NamedTuple):
    acl_name: str
    """Name in CANN's enum, without the prefix ``ACL_``."""
    acl_value: int
    dtype: np.dtype[Any]


TABLE: tuple[DataType, ...] = tuple(
    DataType(name, value, np.dtype(dtype))
    for name, value, dtype in (
        ("FLOAT", 0, np.float32),
        ("FLOAT16", 1, np.float16),
        ("INT8", 2, np.int8),
        ("INT32", 3, np.int32),
        ("UINT8", 4, np.uint8),
        ("INT16", 6, np.int16),
        ("UINT16", 7, np.uint16),
        ("UINT32", 8, np.uint32),
        ("INT64", 9, np.int64),
        ("UINT64", 10, np.uint64),
        ("DOUBLE", 11, np.float64),
        ("BOOL", 12, np.bool_),
        ("COMPLEX64", 16, np.complex64),
        ("COMPLEX128", 17, np.complex128),
        ("BF16", 27, ml_dtypes.bfloat16),
        ("FLOAT8_E5M2", 35, ml_dtypes.float8_e5m2),
        ("FLOAT8_E4M3FN", 36, ml_dtypes.float8_e4m3fn),
    )
)

BY_DTYPE: dict[np.dtype[Any], DataType] = {row.dtype: row for row in TABLE}
"""Only native byte order is in here: a big-endian dtype is another key."""

FP8_E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
FP8_E5M2 = np.dtype(ml_dtypes.float8_e5m2)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)

_RAW_BYTES = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype("V1"))
_RAW_WORDS = (np.dtype(np.uint16), np.dtype(np.int16), np.dtype("V2"))


def name_of(dtype: np.dtype[Any]) -> str:
    """How messages name a dtype: NumPy's name, with the byte order where it is not the machine's."""
    return dtype.name if dtype.isnative else f"{dtype.name} in the other byte order ({dtype.str})"


def hint_for(dtype: np.dtype[Any], allowed: Collection[np.dtype[Any]] = ()) -> str:
    """What to do with an array of this dtype where one of the allowed was expected; may be empty."""
    if not dtype.isnative:
        return "convert it: array.astype(array.dtype.newbyteorder('='))"
    if dtype in _RAW_BYTES and FP8_E4M3FN in allowed:
        return (
            "if the bytes are FP8 codes say which: array.view(ml_dtypes.float8_e4m3fn) or .view(ml_dtypes.float8_e5m2)"
        )
    if dtype in _RAW_WORDS and BFLOAT16 in allowed:
        return "if the bits are bfloat16 say so: array.view(ml_dtypes.bfloat16)"
    if len(allowed) == 1 and dtype in BY_DTYPE and FP8_E4M3FN not in allowed:
        (wanted,) = allowed
        return f"array.astype({name_of(wanted)!r}) converts it"
    return ""
