# SPDX-License-Identifier: Apache-2.0
"""Executors: lifetimes, repeating, refreshed addresses and the executor cache."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scatter_calls as calls

HERE = Path(__file__).parent


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    executors = device.counter("ACLSIM_LIVE_EXECUTORS")
    yield device
    assert device.counter("ACLSIM_LIVE_EXECUTORS") == executors
    device.close()


_next_tokens = iter(range(3, 10_000))


def fresh_view_call(device: Any) -> Any:
    """A call on the view path that no test of this process made before, so that the cache does not know it."""
    tokens = next(_next_tokens)
    call = calls.Call(device, tokens=tokens, heads=1, blocks=1, block_size=tokens, slots=range(tokens))
    call.view("key", call.key.repeat(2, axis=1), (16, 8, 1))
    return call


def ready(device: Any, call: Any) -> tuple[int, int, int]:
    """Executor, workspace size and workspace."""
    status, size, executor = device.phase1(call.handles)
    assert status == 0, device.message()
    return executor, size, device.alloc(size)


class TestPhase2:
    def test_no_executor(self, device: Any) -> None:
        assert device.phase2(None) == 561000
        assert "161001" in device.message()

    @pytest.mark.parametrize("repeatable", [False, True])
    def test_no_workspace_consumes_the_executor(self, device: Any, repeatable: bool) -> None:
        executor, size, _ = ready(device, fresh_view_call(device))
        if repeatable:
            assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 0
        assert device.phase2(executor, size, None) == 561000
        text = device.message()
        assert "workspace is nullptr" in text
        assert "161001" in text

    @pytest.mark.usefixtures("reports")
    def test_a_small_workspace_launches_and_is_reported(self, device: Any) -> None:
        call = calls.Call(device)
        executor, _, _ = ready(device, call)
        misuses, launches = device.counter("ACLSIM_REPORTS"), device.counter("ACLSIM_KERNEL_LAUNCHES")
        assert device.phase2(executor, 0, None) == 0
        assert device.synchronize() == 0
        assert device.counter("ACLSIM_REPORTS") == misuses + 1
        assert device.counter("ACLSIM_KERNEL_LAUNCHES") == launches + 1
        call.check()

    @pytest.mark.usefixtures("reports")
    @pytest.mark.parametrize("empty", [False, True])
    def test_a_second_use(self, device: Any, empty: bool) -> None:
        """Case D6."""
        call = calls.Call(device)
        if empty:
            call.tensors["slotMapping"] = device.tensor((0,), calls.INT32, None)
        executor, size, workspace = ready(device, call) if not empty else (device.phase1(call.handles)[2], 0, None)
        launches, misuses = device.counter("ACLSIM_KERNEL_LAUNCHES"), device.counter("ACLSIM_REPORTS")
        assert device.phase2(executor, size, workspace) == 0
        assert device.phase2(executor, size, workspace) == 561000
        assert device.counter("ACLSIM_KERNEL_LAUNCHES") == launches + (0 if empty else 1)
        assert device.counter("ACLSIM_REPORTS") == misuses + 1
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0
        assert device.counter("ACLSIM_REPORTS") == misuses + 2

    @pytest.mark.provokes("api:unknown_handle")
    def test_a_stream_that_is_none(self, device: Any) -> None:
        executor, size, workspace = ready(device, calls.Call(device))
        phase2 = device.sim.aclnnScatterPaKvCacheWithKScale
        assert phase2(workspace, size, executor, 0x1234) == 561000
        assert device.message() is not None

    @pytest.mark.usefixtures("reports")
    def test_a_tensor_destroyed_before_it(self, device: Any) -> None:
        call = calls.Call(device)
        executor, size, workspace = ready(device, call)
        device.destroy(call.tensors["value"])
        replacement = device.tensor((3, 2, 8), calls.E4M3FN, call.addresses["value"])
        launches, misuses = device.counter("ACLSIM_KERNEL_LAUNCHES"), device.counter("ACLSIM_REPORTS")
        assert replacement != call.tensors["value"]
        assert device.phase2(executor, size, workspace) == 561000
        assert device.counter("ACLSIM_KERNEL_LAUNCHES") == launches
        assert device.counter("ACLSIM_REPORTS") == misuses + 1
        call.check(tokens=[])

    def test_tensors_may_go_right_after_it(self, device: Any) -> None:
        call = calls.Call(device)
        executor, size, workspace = ready(device, call)
        device.sim.aclsim_hold_streams()
        try:
            assert device.phase2(executor, size, workspace) == 0
            for tensor in call.handles:
                device.destroy(tensor)
        finally:
            device.sim.aclsim_release_streams()
        assert device.synchronize() == 0
        call.check()

    def test_addresses_are_read_in_it(self, device: Any) -> None:
        call = calls.Call(device)
        executor, size, workspace = ready(device, call)
        other = device.upload(call.key_cache)
        assert device.sim.aclSetRawTensorAddr(call.tensors["keyCacheRef"], other) == 0
        assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0
        np.testing.assert_array_equal(call.caches()[0], call.key_cache)
        np.testing.assert_array_equal(device.read(other, call.key_cache), call.expected()[0])


class TestDestroy:
    @pytest.mark.usefixtures("reports")
    def test_null_and_unused(self, device: Any) -> None:
        assert device.sim.aclDestroyAclOpExecutor(None) == 561103
        executor, _, _ = ready(device, calls.Call(device))
        misuses = device.counter("ACLSIM_REPORTS")
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0
        assert device.counter("ACLSIM_REPORTS") == misuses
        assert device.phase2(executor) == 561000


class TestRepeatable:
    def test_null(self, device: Any) -> None:
        assert device.sim.aclSetAclOpExecutorRepeatable(None) == 561103

    @pytest.mark.parametrize("padded_single_block", [False, True])
    def test_the_copy_path_refuses(self, device: Any, padded_single_block: bool) -> None:
        call = calls.Call(device, blocks=1, slots=(0, 1, 3))
        if padded_single_block:
            call.view_at("keyCacheRef", call.addresses["keyCacheRef"], 128, (100, 32, 8, 1))
        for _ in range(2):
            executor, size, workspace = ready(device, call)
            assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 561000
            assert "onto itself" in device.message(), "not from the cache"
            assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0

    def test_views_launch_as_often_as_wanted(self, device: Any) -> None:
        call = fresh_view_call(device)
        executor, size, workspace = ready(device, call)
        assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 0
        launches = device.counter("ACLSIM_KERNEL_LAUNCHES")
        for _ in range(2):
            assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0
        assert device.counter("ACLSIM_KERNEL_LAUNCHES") == launches + 2
        call.check()
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0

    @pytest.mark.parametrize("spelling", ["acl", "Acl"])
    @pytest.mark.parametrize("which", ["Input", "Output", ""])
    def test_refreshed_addresses(self, device: Any, spelling: str, which: str) -> None:
        call = fresh_view_call(device)
        executor, size, workspace = ready(device, call)
        assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 0
        assert device.phase2(executor, size, workspace) == 0
        other = device.upload(call.key_cache)
        refresh = getattr(device.sim, f"{spelling}Set{which}TensorAddr")
        assert refresh(executor, 77, call.tensors["keyCacheRef"], other) == 0, "the index is not looked at"
        assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0
        np.testing.assert_array_equal(device.read(other, call.key_cache), call.expected()[0])
        assert refresh(executor, 0, None, other) == 561103
        assert refresh(None, 0, None, other) == 561103
        assert refresh(None, 0, call.tensors["value"], 4096) == 561103
        address = ctypes.c_void_p()
        assert device.sim.aclGetRawTensorAddr(call.tensors["value"], ctypes.byref(address)) == 0
        assert address.value == 4096, "changed before the executor was looked at"
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0

    @pytest.mark.parametrize("spelling", ["acl", "Acl"])
    @pytest.mark.parametrize("which", ["Input", "Output", ""])
    def test_refreshed_members_of_lists(self, device: Any, spelling: str, which: str) -> None:
        sim = device.sim
        executor, _, _ = ready(device, fresh_view_call(device))
        member = sim.aclCreateTensor(None, 0, 0, None, 0, 2, None, 0, None)
        members = sim.aclCreateTensorList((ctypes.c_void_p * 2)(member, None), 2)
        refresh = getattr(sim, f"{spelling}SetDynamic{which}TensorAddr")
        assert refresh(executor, 5, 0, members, 4096) == 0
        address = ctypes.c_void_p()
        assert sim.aclGetRawTensorAddr(member, ctypes.byref(address)) == 0
        assert address.value == 4096
        assert refresh(executor, 5, 2, members, 4096) == 161002
        assert refresh(executor, 5, 1, members, 4096) == 561103
        assert refresh(executor, 5, 0, None, 4096) == 561103
        assert refresh(None, 5, 0, members, 8192) == 561103
        assert sim.aclDestroyTensorList(members) == 0
        assert sim.aclDestroyAclOpExecutor(executor) == 0


def is_cached(device: Any, call: Any) -> bool:
    """Whether phase 1 gives a cached wrapper; the executor is thrown away."""
    executor, _, _ = ready(device, call)
    status = device.sim.aclSetAclOpExecutorRepeatable(executor)
    text = device.message()
    assert (status, text is None) in ((0, True), (561000, False))
    assert device.sim.aclDestroyAclOpExecutor(executor) == 0
    return status != 0 and "executor cache" in text


def run_plain(device: Any, call: Any) -> None:
    executor, size, workspace = ready(device, call)
    assert device.phase2(executor, size, workspace) == 0
    assert device.synchronize() == 0


class TestCache:
    def test_an_identical_call_after_a_plain_run_hits(self, device: Any) -> None:
        call = fresh_view_call(device)
        assert not is_cached(device, call)
        assert not is_cached(device, call), "an executor that never ran leaves nothing"
        run_plain(device, call)
        assert is_cached(device, call)
        run_plain(device, call)
        call.check()

    def test_a_repeatable_call_leaves_nothing(self, device: Any) -> None:
        call = fresh_view_call(device)
        executor, size, workspace = ready(device, call)
        assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 0
        assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0
        assert device.sim.aclDestroyAclOpExecutor(executor) == 0
        assert not is_cached(device, call)

    def test_a_hit_uses_the_addresses_of_phase_1(self, device: Any) -> None:
        call = fresh_view_call(device)
        run_plain(device, call)
        device.write(call.addresses["keyCacheRef"], call.key_cache)
        executor, size, workspace = ready(device, call)
        other = device.upload(call.key_cache)
        assert device.sim.aclSetTensorAddr(executor, 0, call.tensors["keyCacheRef"], other) == 561000
        assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0
        call.check()
        np.testing.assert_array_equal(device.read(other, call.key_cache), call.key_cache)

    def test_a_hit_follows_new_tensors(self, device: Any) -> None:
        """Same descriptions, other memory: the addresses are not part of what is remembered."""
        call = fresh_view_call(device)
        run_plain(device, call)
        other = device.upload(call.key_cache)
        assert device.sim.aclSetRawTensorAddr(call.tensors["keyCacheRef"], other) == 0
        run_plain(device, call)
        np.testing.assert_array_equal(device.read(other, call.key_cache), call.expected()[0])

    @pytest.mark.usefixtures("reports")
    def test_a_hit_is_used_once(self, device: Any) -> None:
        call = fresh_view_call(device)
        run_plain(device, call)
        executor, size, workspace = ready(device, call)
        assert device.phase2(executor, size, workspace) == 0
        assert device.phase2(executor, size, workspace) == 561000

    def test_what_tells_calls_apart(self, device: Any) -> None:
        call = fresh_view_call(device)
        run_plain(device, call)
        sim, tensor, base = device.sim, call.tensors["value"], call.addresses["value"]
        shape, elements = call.value.shape, call.value.size

        def changed(strides: Any = None, offset: int = 0, fmt: int = 2, storage: int = elements) -> bool:
            stored = shape if storage == elements else (storage,)
            dims = calls.int64s(stored)
            wanted = calls.int64s(strides)
            assert sim.aclInitTensor(tensor, None, 0, calls.E4M3FN, wanted, offset, fmt, dims, len(stored), base) == 0
            return not is_cached(device, call)

        assert not changed()
        assert changed(offset=1)
        assert changed(fmt=0)
        assert changed(storage=elements + 1)
        assert changed(strides=(8, 99, 1)), "of an axis of extent 1"
        assert not changed()

    def test_the_layout_text_is_an_attribute(self, device: Any) -> None:
        call = fresh_view_call(device)
        for layout in (b"BNBD", b"", None):
            for misses in (True, False):
                status, size, executor = device.phase1(call.handles, layout)
                assert status == 0
                accepted = device.sim.aclSetTensorAddr(executor, 0, call.tensors["key"], _base(device, call, "key"))
                assert (accepted == 0) == misses
                assert device.phase2(executor, size, device.alloc(size)) == 0
        assert device.synchronize() == 0

    def test_each_thread_has_its_own(self, device: Any) -> None:
        call = fresh_view_call(device)
        run_plain(device, call)
        seen: list[bool] = []

        def other_thread() -> None:
            assert device.sim.aclrtSetDevice(0) == 0
            seen.append(is_cached(device, call))
            run_plain(device, call)
            seen.append(is_cached(device, call))
            assert device.sim.aclrtResetDevice(0) == 0

        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        assert seen == [False, True]

    def test_phase_2_elsewhere_counts_for_the_thread_of_phase_1(self, device: Any) -> None:
        call = fresh_view_call(device)
        executor, size, workspace = ready(device, call)
        statuses: list[int] = []

        def other_thread() -> None:
            statuses.append(device.sim.aclrtSetDevice(0))
            statuses.append(device.phase2(executor, size, workspace))
            statuses.append(device.sim.aclrtResetDevice(0))

        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        assert statuses == [0, 0, 0]
        assert device.synchronize() == 0
        assert is_cached(device, call)

    @pytest.mark.usefixtures("reports")
    def test_a_failed_launch_leaves_nothing(self, device: Any) -> None:
        call = fresh_view_call(device)
        executor, size, workspace = ready(device, call)
        assert device.sim.aclnnScatterPaKvCacheWithKScale(workspace, size, executor, 0x1234) == 561000
        device.message()
        assert not is_cached(device, call)

    @pytest.mark.usefixtures("reports")
    def test_a_destroyed_tensor_does_not_stop_a_hit(self, device: Any) -> None:
        """Its address was taken in phase 1, so CANN launches; reported all the same."""
        call = fresh_view_call(device)
        run_plain(device, call)
        executor, size, workspace = ready(device, call)
        device.destroy(call.tensors["value"])
        misuses = device.counter("ACLSIM_REPORTS")
        assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0
        assert device.counter("ACLSIM_REPORTS") == misuses + 1


def _base(device: Any, call: Any, name: str) -> int:
    address = ctypes.c_void_p()
    assert device.sim.aclGetRawTensorAddr(call.tensors[name], ctypes.byref(address)) == 0
    assert address.value is not None
    return address.value


SEQUENCE = """
import sys
sys.path.insert(0, sys.argv[1])
import scatter_calls, test_nnopbase_executor as tests
from conftest import Sim
device = scatter_calls.Device(Sim())
made = [tests.fresh_view_call(device) for _ in range(3)]
for call in made:
    tests.run_plain(device, call)
print([tests.is_cached(device, call) for call in made])
device.close()
"""


@pytest.mark.parametrize(
    ("setting", "cached"),
    [
        ({}, [True, True, True]),
        ({"ACLNN_CACHE_LIMIT": "2"}, [False, True, True]),
        ({"ACLNN_CACHE_LIMIT": "0"}, [False, False, False]),
        ({"ACLNN_CACHE_LIMIT": "many"}, [True, True, True]),
        ({"ACLNN_CACHE_LIMIT": "10000001"}, [True, True, True]),
        ({"DISABLE_L2_CACHE": ""}, [False, False, False]),
        ({"DISABLE_L2_CACHE": "0"}, [False, False, False]),
    ],
)
def test_the_environment_bounds_the_cache(sim: Any, setting: dict[str, str], cached: list[bool]) -> None:
    clean = {name: text for name, text in os.environ.items() if name not in ("ACLNN_CACHE_LIMIT", "DISABLE_L2_CACHE")}
    done = subprocess.run(
        [sys.executable, "-c", SEQUENCE, str(HERE)], env=clean | setting, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(cached)), done.stderr
