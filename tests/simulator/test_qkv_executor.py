# SPDX-License-Identifier: Apache-2.0
"""The fused operator's executors: repeating, the executor cache, lifetimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import qkv_calls as calls
from qkv_calls import busy


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


_next_tokens = iter(range(20, 10_000))


def fresh(device: Any) -> Any:
    """A call that no test of this process made before, so that the executor cache does not know it."""
    tokens = next(_next_tokens)
    return busy(device, tokens=tokens, heads=(1, 1, 1), block_size=tokens, rows=tokens).prepare()


def plain_run(device: Any, call: Any) -> int:
    """Whether the executor could have been made repeatable; it is run the plain way in any case."""
    status, size, executor = call.phase1()
    assert status == 0
    workspace = device.alloc(size)
    accepted: int = device.sim.aclSetTensorAddr(executor, 0, call.tensors["qkv"], call.addresses["qkv"])
    assert device.phase2(executor, size, workspace) == 0
    assert device.synchronize() == 0
    device.message()
    return accepted


class TestExecutors:
    def test_repeatable_ones_launch_as_often_as_wanted(self, device: Any) -> None:
        call = fresh(device)
        for _ in range(2):
            status, size, executor = call.phase1()
            assert (status, device.sim.aclSetAclOpExecutorRepeatable(executor)) == (0, 0), "and nothing is cached"
            workspace = device.alloc(size)
            launches = device.counter("ACLSIM_KERNEL_LAUNCHES")
            assert device.phase2(executor, size, workspace) == 0
            other = device.upload(call.stored("qOut"))
            assert device.sim.aclSetTensorAddr(executor, 0, call.tensors["qOut"], other) == 0
            assert device.phase2(executor, size, workspace) == 0
            assert device.synchronize() == 0
            assert device.counter("ACLSIM_KERNEL_LAUNCHES") == launches + 2
            np.testing.assert_array_equal(device.read(other, call.stored("qOut")), call.result("qOut"))
            assert device.sim.aclSetRawTensorAddr(call.tensors["qOut"], call.addresses["qOut"]) == 0
            assert device.sim.aclDestroyAclOpExecutor(executor) == 0

    def test_an_identical_call_after_a_plain_run_is_cached(self, device: Any) -> None:
        call = fresh(device)
        assert [plain_run(device, call) for _ in range(3)] == [0, 561000, 561000]
        executor = call.phase1()[2]
        assert device.sim.aclSetAclOpExecutorRepeatable(executor) == 561000
        device.discard(executor)
        device.message()

    def test_what_tells_calls_apart(self, device: Any) -> None:
        call = fresh(device)
        assert plain_run(device, call) == 0
        for epsilon in (0.5, -0.0):
            call.attributes = call.attributes._replace(epsilon=epsilon)
            assert [plain_run(device, call) for _ in range(2)] == [0, 561000]
        call.attributes = call.attributes._replace(head_nums=device.int_array((1, 1, 1)), layout_qkv=None)
        assert plain_run(device, call) == 561000, "the same values in another list, the same layout by default"

    @pytest.mark.provokes("api:strides_ignored")
    def test_descriptors_of_outputs_count_as_they_came(self, device: Any) -> None:
        call = fresh(device)
        shape = call.stored("qOut").shape
        call.view("qOut", np.zeros((shape[0], 256), np.uint8), (256, 256, 1))
        call.addresses["qOut"] = device.alloc(1)
        assert plain_run(device, call) == 0
        assert plain_run(device, call) == 0, "phase 1 made them dense"
        assert plain_run(device, call) == 561000

    def test_phase_2_without_executor_or_workspace(self, device: Any) -> None:
        assert device.phase2(None) == 561000
        executor = fresh(device).phase1()[2]
        assert device.phase2(executor, 512, None) == 561000
        text = device.message()
        assert "workspace is nullptr" in text
        assert "aclnnQkvRmsNormRopeCacheWithKScale" in text

    @pytest.mark.provokes("sync:read_before_synchronise")
    def test_host_objects_may_go_right_after_phase_2(self, device: Any) -> None:
        call = busy(device).prepare()
        status, size, executor = call.phase1()
        workspace = device.alloc(size)
        device.sim.aclsim_hold_streams()
        try:
            assert (status, device.phase2(executor, size, workspace)) == (0, 0)
            for tensor in call.handles:
                device.destroy(tensor)
            assert device.sim.aclDestroyIntArray(device.arrays.pop()) == 0
            assert call.is_untouched(), "the call returned before its work ran"
        finally:
            device.sim.aclsim_release_streams()
        assert device.synchronize() == 0
        assert not call.is_untouched()
