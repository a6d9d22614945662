# SPDX-License-Identifier: Apache-2.0
"""One table of data types, NumPy and ml_dtypes on one side, aclDataType on the other; and the names of aclFormat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

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
        ("FLOAT8_E8M0", 37, ml_dtypes.float8_e8m0fnu),
    )
)

BY_DTYPE: dict[np.dtype[Any], DataType] = {row.dtype: row for row in TABLE}
"""Only native byte order is in here: a big-endian dtype is another key."""

_BY_ACL_NAME: dict[str, np.dtype[Any]] = {row.acl_name: row.dtype for row in TABLE}

FP8_E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
FP8_E5M2 = np.dtype(ml_dtypes.float8_e5m2)
FP8_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
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
}
"""Types of CANN that no array here can have, by name. A tensor that is only described can."""

AnyDtype: TypeAlias = "np.dtype[Any] | str"
"""A NumPy dtype, or a name of ``WITHOUT_DTYPE``."""

DTYPES: Mapping[str, AnyDtype] = {**_BY_ACL_NAME, **{name: name for name in WITHOUT_DTYPE}}
"""By CANN's name, without the prefix ``ACL_``."""

_BY_ANY_NAME: Mapping[str, AnyDtype] = {**DTYPES, **{row.dtype.name: row.dtype for row in TABLE}}

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

_FLOATS = (np.dtype(np.float16), FLOAT32, np.dtype(np.float64), BFLOAT16)
_RAW_BYTES = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype("V1"))
_RAW_WORDS = (np.dtype(np.uint16), np.dtype(np.int16), np.dtype("V2"))


def dtype_of(named: object) -> AnyDtype:
    """The type that a dtype, a NumPy type, or a name stands for: NumPy's ("bfloat16") or CANN's ("BF16", "ACL_BF16").

    Raises TypeError for what is none of these; None, which NumPy takes for float64, is none.
    """
    if isinstance(named, str) and (found := dtype_named(named)) is not None:
        return found
    if named is None:  # which NumPy takes for float64
        raise TypeError("None is no dtype")
    try:
        return np.dtype(named)  # type: ignore[call-overload, no-any-return]
    except (ValueError, SyntaxError) as error:  # NumPy reads long names as lists of fields
        raise TypeError(f"{named!r} is no dtype: {error}") from error


def dtype_named(name: str) -> AnyDtype | None:
    """The type with this name, CANN's or NumPy's; None if there is none."""
    return _BY_ANY_NAME.get(name.removeprefix("ACL_"))


def like(name: object, known: Collection[str]) -> str:
    """A question with the known names most like this one; empty if none is."""
    from difflib import get_close_matches  # here, as most processes never need it

    near = get_close_matches(str(name).upper(), known, n=2)
    return f"did you mean {' or '.join(near)}?" if near else ""


def format_of(named: object) -> int:
    """The aclFormat that a number or a name ("ND", "ACL_FORMAT_FRACTAL_NZ") stands for. Raises TypeError."""
    if isinstance(named, str):
        found = format_named(named)
        if found is not None:
            return found
    elif isinstance(named, (int, np.integer)) and not isinstance(named, bool):
        return int(named)
    raise TypeError(f"{named!r} is no aclFormat")


def format_named(name: str) -> int | None:
    """The aclFormat with this name; None if there is none."""
    return FORMATS.get(name.removeprefix("ACL_").removeprefix("FORMAT_"))


def format_name(number: int) -> str:
    """How messages name an aclFormat: ``FRACTAL_NZ (29)``."""
    name = next((name for name, value in FORMATS.items() if value == number), "unknown")
    return f"{name} ({number})"


def name_of(dtype: AnyDtype) -> str:
    """How messages name a dtype: NumPy's name, with the byte order where it is not the machine's; else CANN's name."""
    if isinstance(dtype, str):
        return dtype
    if dtype.kind == "V" and dtype.type is np.void:  # its name is only a size
        return str(dtype)
    return dtype.name if dtype.isnative else f"{dtype.name} in the other byte order ({dtype.str})"


def is_one_of(dtype: AnyDtype, allowed: Iterable[np.dtype[Any]]) -> bool:
    """Whether the dtype is among the allowed. A name of ``WITHOUT_DTYPE`` never is, but ask NumPy and it raises."""
    return not isinstance(dtype, str) and dtype in allowed


def hint_for(dtype: AnyDtype, allowed: Collection[np.dtype[Any]] = ()) -> str:
    """What to do with an array of this dtype where one of the allowed was expected; may be empty."""
    if isinstance(dtype, str):
        return ""
    if not dtype.isnative:
        return "convert it: array.astype(array.dtype.newbyteorder('='))"
    is_fp8 = FP8_E4M3FN in allowed
    if dtype in _RAW_BYTES and is_fp8:
        return (
            "if the bytes are FP8 codes say which: array.view(ml_dtypes.float8_e4m3fn) or .view(ml_dtypes.float8_e5m2)"
        )
    if dtype in _RAW_BYTES and FP8_E8M0 in allowed:
        return "if the bytes are exponents of base 2 say so: array.view(ml_dtypes.float8_e8m0fnu)"
    if dtype in _RAW_WORDS and BFLOAT16 in allowed:
        return "if the bits are bfloat16 say so: array.view(ml_dtypes.bfloat16)"
    if dtype.name.startswith("float8_") and is_fp8 and dtype not in allowed:
        return (
            "its codes stand for other values: array.astype('f4').astype(ml_dtypes.float8_e4m3fn) converts the values, "
            "array.view(ml_dtypes.float8_e4m3fn) keeps the bytes"
        )
    if dtype not in BY_DTYPE or dtype in allowed or dtype.kind == "b" or not allowed:
        return ""
    if is_fp8:
        return "quantise it on purpose: array.astype(ml_dtypes.float8_e4m3fn) rounds to FP8, and applies no scale"
    return _conversion(dtype, list(allowed)[-1])


def _conversion(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    """How to convert, and at what price; empty where the values would become others, as fractions in integers."""
    if wanted.itemsize == 1:  # codes are no numbers
        return ""
    convert = f"array.astype({name_of(wanted)!r})"
    if np.can_cast(dtype, wanted):
        return f"{convert} converts it"
    if dtype.kind in "iu" and wanted.kind in "iu":
        return f"{convert} converts it if its values fit"
    return f"{convert} rounds it" if dtype in _FLOATS and wanted in _FLOATS else ""
