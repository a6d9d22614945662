# SPDX-License-Identifier: Apache-2.0
"""Phase 1 of the scatter operator against the answers that CANN's host code gave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import recorded_answers
import scatter_calls as calls

NAMES = [
    *("key", "value", "keyCache", "valueCache", "keyCacheRef", "valueCacheRef", "key_cache", "value_cache"),
    *("slotMapping", "slot_mapping", "keyScale", "key_scale", "keyScaleCache", "keyScaleCacheRef", "key_scale_cache"),
]
TITLES = {
    "EZ1001": "AclNN_Parameter_Error",
    "EZ9999": "AclNN_Inner_Error",
    "EZ0009": "Invalid_Argument_Tensor_Shape",
    "EZ0010": "Invalid_Argument_Tensor_Shape",
    "EZ0015": "Invalid_Argument_Tensor_Shape_Size",
}


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


def check_text(status: int, code: str, text: str) -> None:
    assert f"{TITLES[code]}({code})" in text
    assert ("Solution:" in text) == code.startswith("EZ00")
    assert ("TraceBack (most recent call last):" in text) == code.startswith("EZ00")


def test_every_recorded_answer(device: Any) -> None:
    known = recorded_answers.names_pattern(NAMES)

    def ask(line: dict[str, Any], base: int) -> dict[str, Any]:
        layout = line["attrs"]["cacheLayout"]
        attributes = None if layout is None else layout.encode()
        return recorded_answers.answer(device, line, base, calls.NAMES, attributes, known, check_text)

    assert recorded_answers.differences(device, "a_scatter", 1000, ask) == []


def test_a_scale_cache_with_a_wider_last_axis_is_named(device: Any) -> None:
    call = calls.Call(device)
    wide = device.tensor((2, 2, 4, 2), calls.FLOAT, device.alloc(64))
    status, _, _ = device.phase1([*call.handles[:6], wide])
    assert status == 561103
    assert "key_scale_cache" in device.message()


def test_workspace_sizes(device: Any) -> None:
    call = calls.Call(device)
    assert device.workspace_size(call.handles) == calls.WORKSPACE
    call.view("keyCacheRef", call.key_cache.repeat(2), (128, 64, 16, 1))
    assert device.workspace_size(call.handles) == calls.WORKSPACE, "views in place"
    call.view("keyScaleCacheRef", call.scale_cache, (8, 4, 1, 0))
    assert device.workspace_size(call.handles) == calls.WORKSPACE + 512, "the padded cache, 128 bytes, is copied whole"
    call.view("slotMapping", call.slots.repeat(2), (2,))
    assert device.workspace_size(call.handles) == calls.WORKSPACE + 1024


def test_only_slots_are_copied_for_views(device: Any) -> None:
    call = calls.Call(device)
    call.view("keyCacheRef", call.key_cache.repeat(2), (128, 64, 16, 1))
    call.view("slotMapping", call.slots.repeat(2), (2,))
    assert device.workspace_size(call.handles) == calls.WORKSPACE + 512


def test_empty_slots_give_an_executor_that_launches_nothing(device: Any) -> None:
    call = calls.Call(device)
    launches = device.counter("ACLSIM_KERNEL_LAUNCHES")
    empty = device.tensor((0, 1), calls.FLOAT, None)
    status, size, executor = device.phase1([*call.handles[:4], empty, *call.handles[5:]])
    assert (status, size) == (0, 0)
    assert device.phase2(executor) == 0
    assert device.synchronize() == 0
    assert device.counter("ACLSIM_KERNEL_LAUNCHES") == launches
    call.check(tokens=[])


@pytest.mark.provokes("api:no_device")
def test_without_a_device_the_parameters_are_checked_first(device: Any) -> None:
    call = calls.Call(device)
    empty = device.tensor((0,), calls.INT32, None)
    wrong = device.tensor((2,), calls.INT32, None)
    answers: list[Any] = []

    def on_a_new_thread() -> None:
        for handles in (
            call.handles,
            [wrong, *call.handles[1:]],
            [*call.handles[:4], wrong, *call.handles[5:]],
            [*call.handles[:4], empty, *call.handles[5:]],
            [None, *call.handles[1:]],
        ):
            answers.append((device.phase1(handles), device.message()))

    thread = threading.Thread(target=on_a_new_thread)
    thread.start()
    thread.join()
    assert [status for (status, _, _), _ in answers] == [561103, 161002, 561103, 0, 161001]
    assert "aclrtGetDevice" in answers[0][1]
    assert "107002" in answers[0][1]
    assert "aclrtGetDevice" in answers[2][1]
    assert answers[4][1] is None
    device.discard(answers[3][0][2])


@pytest.mark.usefixtures("reports")
def test_a_destroyed_tensor_is_reported(device: Any) -> None:
    call = calls.Call(device)
    handles = call.handles
    device.destroy(handles[0])
    misuses = device.counter("ACLSIM_REPORTS")
    assert device.phase1(handles)[0] == 561103
    assert device.counter("ACLSIM_REPORTS") == misuses + 1
