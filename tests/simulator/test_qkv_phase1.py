# SPDX-License-Identifier: Apache-2.0
"""Phase 1 of the fused operator against the answers that CANN's host code gave."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import qkv_calls as calls
import recorded_answers

TITLES = {
    "EZ1001": "AclNN_Parameter_Error",
    "EZ9999": "AclNN_Inner_Error",
    "EZ0009": "Invalid_Argument_Tensor_Shape",
    "EZ0010": "Invalid_Argument_Tensor_Shape",
    "EZ0012": "Invalid_Argument_Tensor_Shape_Dim",
    "EZ0017": "Invalid_Argument_Tensor_Format",
    "EZ0020": "Invalid_Argument_Tensor_Dtype",
    "EZ0025": "Invalid_Argument",
    "EZ0026": "Invalid_Argument",
    "EZ0027": "Invalid_Argument",
    "EZ0028": "Invalid_Argument_Tensor_Stride",
}
NAMES = [
    *calls.NAMES,
    *("headNums", "layout_qkv", "layout_q_out", "layoutQkv", "layoutQOut", "epsilon", "rotation", "vScale"),
    *("kCache", "vCache", "kScaleCache", "D", "T", "Nq", "Nk", "Nv", "Nq+Nk", "Nq+Nk+Nv"),
]
KNOWN = recorded_answers.names_pattern(NAMES)


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


def check_text(status: int, code: str, text: str) -> None:
    assert f"{TITLES[code]}({code})" in text
    assert ("Solution:" in text) == code.startswith("EZ00")
    assert ("TraceBack (most recent call last):" in text) == (status == 561103 and code.startswith("EZ00"))


def test_every_recorded_answer(device: Any) -> None:
    def ask(line: dict[str, Any], base: int) -> dict[str, Any]:
        attrs = line["attrs"]
        layouts = [None if attrs[n] is None else attrs[n].encode() for n in ("layoutQkv", "layoutQOut")]
        heads = None if attrs["headNums"] is None else device.int_array(attrs["headNums"])
        attributes = calls.Attributes(heads, *layouts, attrs["epsilon"])
        return recorded_answers.answer(device, line, base, calls.NAMES, attributes, KNOWN, check_text)

    assert recorded_answers.differences(device, "a_qkv", 1000, ask) == []


def answer(device: Any, call: Any) -> tuple[int, list[str]]:
    status, _, executor = call.phase1()
    if status == 0:
        device.discard(executor)
    return status, KNOWN.findall(device.message() or "")


@pytest.mark.parametrize(
    ("heads", "status", "about"),
    [
        ((120, 8, 8), 0, []),
        ((1, 79, 79), 0, []),
        ((4, 4, 4), 0, []),
        ((121, 8, 8), 561103, ["Nq+Nk"]),
        ((2, 80, 80), 561103, ["Nq+Nk+Nv"]),
        ((1, 128, 128), 561103, ["Nq+Nk"]),
    ],
)
def test_head_limits(device: Any, heads: tuple[int, int, int], status: int, about: list[str]) -> None:
    call = calls.Call(device, tokens=1, heads=heads, blocks=1, block_size=1).prepare()
    assert answer(device, call) == (status, about)


@pytest.mark.parametrize("heads", [(2**62, 2**62, 2**62), (2**63 - 1, 1, 1), (2, 2**63 - 1, 2**63 - 1)])
def test_head_sums_that_overflow(device: Any, heads: tuple[int, int, int]) -> None:
    call = calls.Call(device).prepare()
    call.attributes = call.attributes._replace(head_nums=device.int_array(heads))
    assert answer(device, call) == (161002, ["qkv", "headNums"])


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_epsilon_is_not_looked_at(device: Any, epsilon: float) -> None:
    call = calls.Call(device)
    call.epsilon = epsilon
    assert answer(device, call.prepare())[0] == 0


class TestWorkspace:
    def test_dense_inputs_need_no_copies(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        assert device.workspace_size(call.handles, call.attributes) == calls.WORKSPACE

    def test_each_copy_is_rounded_up(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        call.view("seqLens", np.zeros(2, np.int32), (5,))
        assert device.workspace_size(call.handles, call.attributes) == calls.WORKSPACE, "one entry has no gaps"
        call.view("slotMapping", np.zeros(6, np.int32), (2,))
        assert device.workspace_size(call.handles, call.attributes) == calls.WORKSPACE + 512
        call.view("qkv", np.zeros((3, 8, 128), np.uint16), (1024, 128, 1))
        assert device.workspace_size(call.handles, call.attributes) == calls.WORKSPACE + 512 + 3 * 4 * 256

    @pytest.mark.provokes("api:strides_ignored")
    def test_caches_and_outputs_are_never_copied(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        for name in ("kCacheRef", "vCacheRef"):
            call.view(name, np.zeros((2, 1, 4, 256), np.uint8), (1024, 1024, 256, 1))
        call.view("qOut", np.zeros((3, 2, 256), np.uint8), (512, 256, 1))
        assert device.workspace_size(call.handles, call.attributes) == calls.WORKSPACE


class TestStorage:
    """Row 19a."""

    @pytest.mark.parametrize(
        ("strides", "offset", "elements", "status"),
        [
            ((2,), 0, 5, 0),
            ((2,), 0, 4, 561103),
            ((2,), 1, 5, 561103),
            ((-1,), 2, 3, 0),
            ((-1,), 1, 3, 561103),
            ((0,), 0, 1, 0),
            ((1,), 0, 1, 0),
            ((1,), 9, 1, 0),
            ((2**62,), 0, 5, 561103),
        ],
    )
    def test_only_copies_look_at_it(
        self, device: Any, strides: tuple[int], offset: int, elements: int, status: int
    ) -> None:
        call = calls.Call(device).prepare()
        call.view_at("slotMapping", call.addresses["slotMapping"], elements, strides, offset)
        got = call.phase1()
        text = device.message()
        if status == 0:
            device.discard(got[2])
        assert got[0] == status
        assert (text is None) == (status == 0)
        assert text is None or "AclNN_Parameter_Error(EZ1001)" in text

    def test_a_cache_may_begin_at_the_end_of_its_storage(self, device: Any) -> None:
        call = calls.Call(device).prepare()
        address = call.addresses["kScaleCacheRef"]
        call.view_at("kScaleCacheRef", address, 8, (4, 4, 1, 1), offset=8)
        assert answer(device, call)[0] == 0
        call.view_at("kScaleCacheRef", address, 8, (4, 4, 1, 1), offset=9)
        assert answer(device, call)[0] == 561103


def shape_of(device: Any, tensor: int, getter: str) -> list[int]:
    values, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
    assert getattr(device.sim, getter)(tensor, ctypes.byref(values), ctypes.byref(count)) == 0
    got = values[: count.value]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]
    free(values)
    return got


@pytest.mark.provokes("api:strides_ignored")
def test_output_descriptors_are_rewritten(device: Any) -> None:
    call = calls.Call(device).prepare()
    call.view("qOut", np.zeros((3, 2, 256), np.uint8), (512, 256, 1), offset=5)
    call.view("kCacheRef", np.zeros((2, 1, 4, 256), np.uint8), (1024, 1024, 256, 2))
    assert answer(device, call)[0] == 561103, "the tiling comes after it"
    tensor = call.tensors["qOut"]
    assert shape_of(device, tensor, "aclGetViewStrides") == [256, 128, 1]
    assert shape_of(device, tensor, "aclGetViewShape") == [3, 2, 128]
    assert shape_of(device, tensor, "aclGetStorageShape") == [3, 2, 128]


def test_a_failed_check_leaves_output_descriptors(device: Any) -> None:
    call = calls.Call(device).prepare()
    call.view("qOut", np.zeros((3, 2, 256), np.uint8), (512, 256, 1))
    call.attributes = call.attributes._replace(head_nums=device.int_array((2, 1)))
    assert answer(device, call) == (161002, ["headNums"])
    assert shape_of(device, call.tensors["qOut"], "aclGetViewStrides") == [512, 256, 1]


@pytest.mark.provokes("api:no_device")
def test_without_a_device_the_parameters_are_checked_first(device: Any) -> None:
    good, wrong, strided = (calls.Call(device).prepare() for _ in range(3))
    wrong.attributes = wrong.attributes._replace(layout_qkv=b"BSH")
    strided.view("kCacheRef", np.zeros((2, 1, 4, 256), np.uint8), (1024, 1024, 256, 2))
    answers: list[Any] = []

    def on_a_new_thread() -> None:
        for call in (good, wrong, strided):
            answers.append((call.phase1()[0], device.message()))

    thread = threading.Thread(target=on_a_new_thread)
    thread.start()
    thread.join()
    assert [status for status, _ in answers] == [561103, 161002, 561103]
    for _, text in (answers[0], answers[2]):
        assert "aclrtGetDevice" in text
        assert "107002" in text


@pytest.mark.usefixtures("reports")
def test_objects_that_are_gone_are_reported(device: Any) -> None:
    call = calls.Call(device).prepare()
    misuses = device.counter("ACLSIM_REPORTS")
    heads = device.int_array((2, 1, 1))
    device.arrays.remove(heads)
    assert device.sim.aclDestroyIntArray(heads) == 0
    call.attributes = call.attributes._replace(head_nums=heads)
    assert call.phase1()[0] == 561103
    handles = call.handles
    device.destroy(handles[0])
    assert device.phase1(handles, call.attributes)[0] == 561103
    assert device.counter("ACLSIM_REPORTS") == misuses + 2


def test_null_layouts_mean_tokens_in_and_heads_out(device: Any) -> None:
    call = calls.Call(device, layouts=("TND", "NTD")).prepare()
    for text in (None, b""):
        call.attributes = call.attributes._replace(layout_qkv=text, layout_q_out=text)
        assert answer(device, call) == (0, [])
