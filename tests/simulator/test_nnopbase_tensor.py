# SPDX-License-Identifier: Apache-2.0
"""Tensors: what is kept, what is not checked, and what the getters give."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from scatter_calls import int64s

libc = ctypes.CDLL(None)
libc.free.argtypes = [ctypes.c_void_p]
libc.free.restype = None


def create(sim: Any, dims: Any = (2, 3, 4), dtype: int = 0, **other: Any) -> Any:
    stored = other.get("storage", dims)
    return sim.aclCreateTensor(
        int64s(dims),
        other.get("rank", len(dims or ())),
        dtype,
        int64s(other.get("strides")),
        other.get("offset", 0),
        other.get("fmt", 2),
        int64s(stored),
        other.get("storage_rank", len(stored or ())),
        other.get("base"),
    )


def array(getter: Any, tensor: Any) -> list[int]:
    values, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    assert getter(tensor, ctypes.byref(values), ctypes.byref(count)) == 0
    got = [values[i] for i in range(count.value)]
    libc.free(values)
    return got


def scalar(getter: Any, tensor: Any, ctype: Any) -> Any:
    value = ctype()
    assert getter(tensor, ctypes.byref(value)) == 0
    return value.value


def test_getters_give_what_was_put_in(sim: Any) -> None:
    tensor = create(sim, strides=(100, -4, 0), offset=-7, storage=(500,), base=4096)
    assert array(sim.aclGetViewShape, tensor) == [2, 3, 4]
    assert array(sim.aclGetViewStrides, tensor) == [100, -4, 0]
    assert array(sim.aclGetStorageShape, tensor) == [500]
    assert scalar(sim.aclGetViewOffset, tensor, ctypes.c_int64) == -7
    assert scalar(sim.aclGetDataType, tensor, ctypes.c_int) == 0
    assert scalar(sim.aclGetFormat, tensor, ctypes.c_int) == 2
    assert scalar(sim.aclGetRawTensorAddr, tensor, ctypes.c_void_p) == 4096
    assert sim.aclDestroyTensor(tensor) == 0


@pytest.mark.parametrize(
    ("dims", "strides"),
    [((2, 3, 4), [12, 4, 1]), ((5,), [1]), ((), []), ((3, 0, 2), [0, 2, 1]), ((2, -3), [-3, 1])],
)
def test_no_strides_are_contiguous_ones(sim: Any, dims: tuple[int, ...], strides: list[int]) -> None:
    tensor = create(sim, dims)
    assert array(sim.aclGetViewStrides, tensor) == strides
    assert sim.aclDestroyTensor(tensor) == 0


def test_only_missing_arrays_are_refused(sim: Any) -> None:
    sim.aclGetRecentErrMsg()
    assert create(sim, None, rank=2, storage=(1,)) is None
    assert create(sim, (2,), storage=None, storage_rank=1) is None
    assert b"EZ1001" in sim.aclGetRecentErrMsg()
    tensor = create(sim, None, storage=None)
    assert tensor is not None
    assert array(sim.aclGetViewShape, tensor) == []
    assert sim.aclDestroyTensor(tensor) == 0


@pytest.mark.parametrize("number", [999, -5, 5, 42, 14])
def test_unknown_dtypes_and_formats_become_undefined(sim: Any, number: int) -> None:
    tensor = create(sim, dtype=number, fmt=number)
    assert scalar(sim.aclGetDataType, tensor, ctypes.c_int) == -1
    assert scalar(sim.aclGetFormat, tensor, ctypes.c_int) == (number if number == 4 else -1)
    assert sim.aclDestroyTensor(tensor) == 0


def test_every_declared_dtype_and_format_is_known(sim: Any) -> None:
    for number in (*range(5), *range(6, 14), 16, 17, 27, 29, 30, *range(33, 42)):
        tensor = create(sim, dtype=number)
        assert scalar(sim.aclGetDataType, tensor, ctypes.c_int) == number
        assert sim.aclDestroyTensor(tensor) == 0
    for number in (0, 1, 2, 3, 4, 12, 16, 27, 29, 30, 32, 33, 35, 47, 50, 51, 52, 53, 54):
        tensor = create(sim, fmt=number)
        assert scalar(sim.aclGetFormat, tensor, ctypes.c_int) == number
        assert sim.aclDestroyTensor(tensor) == 0


@pytest.mark.usefixtures("reports")
def test_more_than_25_extents_keep_their_count_and_are_reported(sim: Any) -> None:
    misuses = sim.aclsim_counter(sim.constants["ACLSIM_REPORTS"])
    tensor = create(sim, tuple(range(1, 31)))
    assert tensor is not None
    got = array(sim.aclGetViewShape, tensor)
    assert len(got) == 30
    assert got[:25] == list(range(1, 26))
    assert sim.aclsim_counter(sim.constants["ACLSIM_REPORTS"]) == misuses + 1
    assert sim.aclDestroyTensor(tensor) == 0


def test_dims_are_copied(sim: Any) -> None:
    dims = int64s((2, 3))
    tensor = sim.aclCreateTensor(dims, 2, 0, None, 0, 2, dims, 2, None)
    dims[0] = 77
    assert array(sim.aclGetViewShape, tensor) == [2, 3]
    assert sim.aclDestroyTensor(tensor) == 0


def test_null_arguments_answer_161001(sim: Any) -> None:
    tensor = create(sim)
    values, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    for getter in (sim.aclGetViewShape, sim.aclGetViewStrides, sim.aclGetStorageShape):
        assert getter(None, ctypes.byref(values), ctypes.byref(count)) == 161001
        assert getter(tensor, None, ctypes.byref(count)) == 161001
        assert getter(tensor, ctypes.byref(values), None) == 161001
    for getter in (sim.aclGetViewOffset, sim.aclGetDataType, sim.aclGetFormat, sim.aclGetRawTensorAddr):
        assert getter(tensor, None) == 161001
    assert sim.aclGetViewOffset(None, ctypes.byref(ctypes.c_int64())) == 161001
    assert sim.aclSetRawTensorAddr(None, None) == 161001
    assert sim.aclInitTensor(None, None, 0, 0, None, 0, 2, None, 0, None) == 161001
    assert b"EZ1001" in sim.aclGetRecentErrMsg()
    assert sim.aclDestroyTensor(tensor) == 0


@pytest.mark.usefixtures("reports")
def test_destroying_null_is_fine_and_twice_is_reported(sim: Any) -> None:
    counter = sim.constants["ACLSIM_REPORTS"]
    live = sim.aclsim_counter(sim.constants["ACLSIM_LIVE_TENSORS"])
    assert sim.aclDestroyTensor(None) == 0
    misuses = sim.aclsim_counter(counter)
    tensor = create(sim)
    assert sim.aclsim_counter(sim.constants["ACLSIM_LIVE_TENSORS"]) == live + 1
    assert sim.aclDestroyTensor(tensor) == 0
    assert sim.aclsim_counter(counter) == misuses
    assert sim.aclDestroyTensor(tensor) == 0
    assert sim.aclsim_counter(counter) == misuses + 1
    assert sim.aclGetViewOffset(tensor, ctypes.byref(ctypes.c_int64())) == 561000
    assert sim.aclsim_counter(counter) == misuses + 2
    assert sim.aclsim_counter(sim.constants["ACLSIM_LIVE_TENSORS"]) == live


def test_raw_address(sim: Any) -> None:
    tensor = create(sim, base=4096, offset=3)
    assert sim.aclSetRawTensorAddr(tensor, 8192) == 0
    assert scalar(sim.aclGetRawTensorAddr, tensor, ctypes.c_void_p) == 8192
    assert sim.aclSetRawTensorAddr(tensor, None) == 0
    assert scalar(sim.aclGetRawTensorAddr, tensor, ctypes.c_void_p) is None
    assert sim.aclDestroyTensor(tensor) == 0


def test_init_replaces_shapes_only_where_given(sim: Any) -> None:
    tensor = create(sim, (2, 3), strides=(9, 1), offset=5, storage=(40,), base=4096)
    assert sim.aclInitTensor(tensor, None, 0, 36, None, 6, 0, int64s((50,)), 1, None) == 0
    assert array(sim.aclGetViewShape, tensor) == [2, 3]
    assert array(sim.aclGetViewStrides, tensor) == [3, 1], "contiguous again: strides are always replaced"
    assert array(sim.aclGetStorageShape, tensor) == [50]
    assert scalar(sim.aclGetViewOffset, tensor, ctypes.c_int64) == 6
    assert scalar(sim.aclGetDataType, tensor, ctypes.c_int) == 36
    assert scalar(sim.aclGetFormat, tensor, ctypes.c_int) == 0
    assert scalar(sim.aclGetRawTensorAddr, tensor, ctypes.c_void_p) == 4096, "no address keeps the old one"
    assert sim.aclInitTensor(tensor, int64s((4, 5, 6)), 3, 3, int64s((1, 2, 3)), 0, 2, None, 1, 8192) == 0
    assert array(sim.aclGetViewShape, tensor) == [4, 5, 6]
    assert array(sim.aclGetViewStrides, tensor) == [1, 2, 3]
    assert array(sim.aclGetStorageShape, tensor) == [50]
    assert scalar(sim.aclGetRawTensorAddr, tensor, ctypes.c_void_p) == 8192
    assert sim.aclDestroyTensor(tensor) == 0
