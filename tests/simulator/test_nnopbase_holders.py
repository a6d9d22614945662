# SPDX-License-Identifier: Apache-2.0
"""Scalars, arrays and lists; what is not simulated."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest


def live(sim: Any, name: str) -> int:
    return int(sim.aclsim_counter(sim.constants[name]))


def size_of(getter: Any, handle: Any) -> int:
    size = ctypes.c_uint64(99)
    assert getter(handle, ctypes.byref(size)) == 0
    return size.value


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize(
    ("name", "ctype"), [("Int", ctypes.c_int64), ("Float", ctypes.c_float), ("Bool", ctypes.c_bool)]
)
def test_arrays(sim: Any, name: str, ctype: Any) -> None:
    create = getattr(sim, f"aclCreate{name}Array")
    destroy = getattr(sim, f"aclDestroy{name}Array")
    getter = getattr(sim, f"aclGet{name}ArraySize")
    before = live(sim, "ACLSIM_LIVE_HOLDERS")
    handles = [create((ctype * 3)(1, 0, 1), 3), create(None, 3), create((ctype * 1)(), 0)]
    assert live(sim, "ACLSIM_LIVE_HOLDERS") == before + 3
    assert [size_of(getter, handle) for handle in handles] == [3, 0, 0]
    assert getter(None, ctypes.byref(ctypes.c_uint64())) == 161001
    assert getter(handles[0], None) == 161001
    misuses = live(sim, "ACLSIM_REPORTS")
    assert [destroy(handle) for handle in (*handles, None)] == [0] * 4
    assert live(sim, "ACLSIM_REPORTS") == misuses
    assert destroy(handles[0]) == 0
    assert live(sim, "ACLSIM_REPORTS") == misuses + 1
    assert live(sim, "ACLSIM_LIVE_HOLDERS") == before


def test_scalars(sim: Any) -> None:
    value = (ctypes.c_uint8 * 16)()
    supported = {*range(5), *range(6, 13), 16, 17, 27, *range(34, 42)}
    for dtype in range(-1, 45):
        sim.aclGetRecentErrMsg()
        scalar = sim.aclCreateScalar(value, dtype)
        assert (scalar is not None) == (dtype in supported), dtype
        if scalar is None:
            assert b"Not_Supported_Data_Type(EZ1006)" in sim.aclGetRecentErrMsg()
        assert sim.aclDestroyScalar(scalar) == 0
    assert sim.aclCreateScalar(None, 0) is None


@pytest.mark.usefixtures("reports")
def test_destroying_a_list_destroys_its_members(sim: Any) -> None:
    tensors, holders = live(sim, "ACLSIM_LIVE_TENSORS"), live(sim, "ACLSIM_LIVE_HOLDERS")
    members = [sim.aclCreateTensor(None, 0, 0, None, 0, 2, None, 0, None) for _ in range(2)]
    tensor_list = sim.aclCreateTensorList((ctypes.c_void_p * 3)(members[0], None, members[1]), 3)
    value = ctypes.c_float(1.5)
    scalars = [sim.aclCreateScalar(ctypes.byref(value), 0) for _ in range(2)]
    scalar_list = sim.aclCreateScalarList((ctypes.c_void_p * 2)(*scalars), 2)
    assert size_of(sim.aclGetTensorListSize, tensor_list) == 3
    assert size_of(sim.aclGetScalarListSize, scalar_list) == 2
    misuses = live(sim, "ACLSIM_REPORTS")
    assert sim.aclDestroyTensorList(tensor_list) == 0
    assert sim.aclDestroyScalarList(scalar_list) == 0
    assert live(sim, "ACLSIM_REPORTS") == misuses
    assert live(sim, "ACLSIM_LIVE_TENSORS") == tensors
    assert live(sim, "ACLSIM_LIVE_HOLDERS") == holders
    assert sim.aclDestroyTensor(members[0]) == 0
    assert live(sim, "ACLSIM_REPORTS") == misuses + 1
    assert sim.aclDestroyTensorList(None) == 0


@pytest.mark.usefixtures("reports")
def test_a_list_of_a_destroyed_member_is_reported_once(sim: Any) -> None:
    member = sim.aclCreateTensor(None, 0, 0, None, 0, 2, None, 0, None)
    tensor_list = sim.aclCreateTensorList((ctypes.c_void_p * 1)(member), 1)
    misuses = live(sim, "ACLSIM_REPORTS")
    assert sim.aclDestroyTensor(member) == 0
    assert sim.aclDestroyTensorList(tensor_list) == 0
    assert live(sim, "ACLSIM_REPORTS") == misuses + 1


@pytest.mark.usefixtures("reports")
def test_a_handle_of_another_kind_is_none(sim: Any) -> None:
    array = sim.aclCreateIntArray(None, 0)
    misuses = live(sim, "ACLSIM_REPORTS")
    assert sim.aclDestroyTensor(array) == 0
    assert live(sim, "ACLSIM_REPORTS") == misuses + 1
    assert size_of(sim.aclGetIntArraySize, array) == 0, "still there"
    assert sim.aclDestroyIntArray(array) == 0


def test_init_and_finalize(sim: Any, tmp_path: Path) -> None:
    settings = tmp_path / "acl.json"
    settings.write_text("{}")
    assert sim.aclnnInit(None) == 0
    assert sim.aclnnInit(b"") == 0
    assert sim.aclnnInit(str(settings).encode()) == 0
    assert sim.aclnnInit(str(tmp_path / "none.json").encode()) == 161002
    assert b"EZ1003" in sim.aclGetRecentErrMsg()
    assert sim.aclnnFinalize() == 0


def test_dumping_fails_loudly(sim: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert sim.aclDumpOpTensors(b"Op", b"op", None, 0, 0, None) == 561000
    assert "aclDumpOpTensors is not simulated" in capfd.readouterr().err
    assert b"aclDumpOpTensors" in sim.aclGetRecentErrMsg()
