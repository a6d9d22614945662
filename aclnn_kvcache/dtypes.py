# SPDX-License-Identifier: Apache-2.0
"""One table of data types, NumPy and ml_dtypes on one side, aclDataType on the other; and the names of aclFormat."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np


class DataType(NamedTuple):
    acl_name: str
    """Name in CANN's enum, without the prefix ``ACL_``."""
    acl_value: int
    dtype: np.dtype[Any]


_E8M0: Any = getattr(ml_dtypes, "float8_e8m0fnu", None)
"""None in ml_dtypes before 0.5; the type then is one without arrays."""

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
        ("FLOAT8_E8M0", 37, _E8M0),
    )
    if dtype is not None
)

BY_DTYPE: dict[np.dtype[Any], DataType] = {row.dtype: row for row in TABLE}
"""Only native byte order is in here: a big-endian dtype is another key."""

_BY_ACL_NAME: dict[str, np.dtype[Any]] = {row.acl_name: row.dtype for row in TABLE}

FP8_E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
FP8_E5M2 = np.dtype(ml_dtypes.float8_e5m2)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)
INT8 = np.dtype(np.int8)
INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)

WITHOUT_DTYPE = {
    "STRING": 13,
    "INT4": 29,
    "UINT1": 30,
    "COMPLEX32": 33,
    "HIFLOAT8": 34,
    "FLOAT6_E3M2": 38,
    "FLOAT6_E2M3": 39,
    "FLOAT4_E2M1": 40,
    "FLOAT4_E1M2": 41,
    **({"FLOAT8_E8M0": 37} if _E8M0 is None else {}),
}
"""Types of CANN that no array here can have, by name. A tensor that is only described can."""

AnyDtype: TypeAlias = "np.dtype[Any] | str"
"""A NumPy dtype, or a name of ``WITHOUT_DTYPE``."""

FP8_E8M0: AnyDtype = "FLOAT8_E8M0" if _E8M0 is None else np.dtype(_E8M0)

FORMATS = {
    "UNDEFINED": -1,
    "NCHW": 0,
    "NHWC": 1,
    "ND": 2,
    "NC1HWC0": 3,
    "FRACTAL_Z": 4,
    "NC1HWC0_C04": 12,
    "HWCN": 16,
    "NDHWC": 27,
    "FRACTAL_NZ": 29,
    "NCDHW": 30,
    "NDC1HWC0": 32,
    "FRACTAL_Z_3D": 33,
    "NC": 35,
    "NCL": 47,
    "FRACTAL_NZ_C0_16": 50,
    "FRACTAL_NZ_C0_32": 51,
    "FRACTAL_NZ_C0_2": 52,
    "FRACTAL_NZ_C0_4": 53,
    "FRACTAL_NZ_C0_8": 54,
}
"""aclFormat by name, without the prefix ``ACL_FORMAT_``."""

PRIVATE_FORMATS = (3, 4, 12, 29, 32, 33, *range(50, 55))
"""Formats whose elements do not lie as the shape says."""

_RAW_BYTES = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype("V1"))
_RAW_WORDS = (np.dtype(np.uint16), np.dtype(np.int16), np.dtype("V2"))


def dtype_of(named: object) -> AnyDtype:
    """The type that a dtype, a NumPy type, or a name stands for: NumPy's ("bfloat16") or CANN's ("BF16", "ACL_BF16").

    Raises TypeError for what is none of these.
    """
    if isinstance(named, str):
        name = named.removeprefix("ACL_")
        if name in WITHOUT_DTYPE:
            return name
        if name in _BY_ACL_NAME:
            return _BY_ACL_NAME[name]
    return np.dtype(named)  # type: ignore[call-overload, no-any-return]


def format_of(named: object) -> int:
    """The aclFormat that a number or a name ("ND", "ACL_FORMAT_FRACTAL_NZ") stands for. Raises TypeError."""
    if isinstance(named, str):
        name = named.removeprefix("ACL_").removeprefix("FORMAT_")
        if name in FORMATS:
            return FORMATS[name]
    elif isinstance(named, (int, np.integer)) and not isinstance(named, bool):
        return int(named)
    raise TypeError(f"{named!r} is no aclFormat")


def format_name(number: int) -> str:
    """How messages name an aclFormat: ``FRACTAL_NZ (29)``."""
    name = next((name for name, value in FORMATS.items() if value == number), "unknown")
    return f"{name} ({number})"


def name_of(dtype: AnyDtype) -> str:
    """How messages name a dtype: NumPy's name, with the byte order where it is not the machine's; else CANN's name."""
    if isinstance(dtype, str):
        return dtype
    return dtype.name if dtype.isnative else f"{dtype.name} in the other byte order ({dtype.str})"


def is_one_of(dtype: AnyDtype, allowed: Iterable[AnyDtype]) -> bool:
    """Whether the dtype is among the allowed. A NumPy dtype and a name are never equal, but ask NumPy and it raises."""
    return any(isinstance(dtype, str) == isinstance(other, str) and dtype == other for other in allowed)


def hint_for(dtype: AnyDtype, allowed: Collection[AnyDtype] = ()) -> str:
    """What to do with an array of this dtype where one of the allowed was expected; may be empty."""
    if isinstance(dtype, str):
        return ""
    if "FLOAT8_E8M0" in map(name_of, allowed):
        return "arrays of that type need float8_e8m0fnu of ml_dtypes 0.5 or later"
    if not dtype.isnative:
        return "convert it: array.astype(array.dtype.newbyteorder('='))"
    if dtype in _RAW_BYTES and "float8_e8m0fnu" in map(name_of, allowed) and len(allowed) == 1:
        return "if the bytes are exponents of base 2 say so: array.view(ml_dtypes.float8_e8m0fnu)"
    if dtype in _RAW_BYTES and is_one_of(FP8_E4M3FN, allowed):
        return (
            "if the bytes are FP8 codes say which: array.view(ml_dtypes.float8_e4m3fn) or .view(ml_dtypes.float8_e5m2)"
        )
    if dtype in _RAW_WORDS and is_one_of(BFLOAT16, allowed):
        return "if the bits are bfloat16 say so: array.view(ml_dtypes.bfloat16)"
    if len(allowed) == 1 and dtype in BY_DTYPE:
        (wanted,) = allowed
        if not isinstance(wanted, str) and wanted.itemsize > 1:  # codes of one byte are no numbers to convert
            return f"array.astype({name_of(wanted)!r}) converts it"
    return ""
