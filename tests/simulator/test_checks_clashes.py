# SPDX-License-Identifier: Apache-2.0
"""Bytes that one call has twice: tensors that share them, rows of a cache that lie on each other, and a workspace that
lies on a tensor. Views of one allocation that share no byte which is touched are none of this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import qkv_calls
import scatter_calls

SCATTER, QKV = "aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale"
TENSORS, ROWS, WORKSPACE = "race:overlapping_tensors", "race:overlapping_rows", "api:workspace_overlaps_tensor"


@pytest.fixture
def scatter(sim: Any) -> Iterator[scatter_calls.Device]:
    device = scatter_calls.Device(sim)
    yield device
    device.close()


@pytest.fixture
def qkv(sim: Any) -> Iterator[qkv_calls.Device]:
    device = qkv_calls.Device(sim)
    yield device
    device.close()


def copied(call: scatter_calls.Call) -> None:
    """Makes it a call whose views are copied into the workspace and back: a last stride is not 1."""
    call.view("value", call.value.repeat(2), [2 * stride for stride in call.value.strides])


class TestTensors:
    def test_caches_that_are_one(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter)
        address = call.addresses["keyCacheRef"]
        call.view_at("valueCacheRef", address, call.key_cache.size, call.key_cache.strides)
        assert call.run() == 0
        (found,) = reports.take()
        assert (f"{found['check']}:{found['kind']}", found["function"]) == (TENSORS, SCATTER)
        assert found["text"] == (
            "tensor keyCacheRef, which it writes, and tensor valueCacheRef, which it writes, share 48 bytes in 6 "
            f"ranges, first the 8 at {address:#x}, byte 0 of the allocation of 128 bytes at {address:#x}; a device "
            "goes through rows in any order: give each tensor memory of its own"
        )

    def test_caches_of_two_dtypes(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter)
        call.view_at("keyScaleCacheRef", call.addresses["keyCacheRef"], 16, (8, 4, 1, 1))
        assert call.run() == 0
        assert reports.kinds() == [TENSORS]

    def test_caches_that_are_copied(self, scatter: Any, reports: Any) -> None:
        """Both go back whole, the other's rows as they were before the call."""
        call = scatter_calls.Call(scatter)
        address = scatter.upload(np.zeros(256, np.uint8))
        for name in ("keyCacheRef", "valueCacheRef"):
            call.view_at(name, address, 256, (128, 64, 16, 2))
        assert call.run() == 0
        assert reports.kinds() == [TENSORS]

    @pytest.mark.parametrize("step", [1, 2], ids=["in place", "copied"])
    def test_caches_that_run_through_each_other_are_none(self, scatter: Any, step: int) -> None:
        """Element by element in the copies, else row by row."""
        call = scatter_calls.Call(scatter)
        strides, offset = ((128, 64, 16, 1), 8) if step == 1 else ((128, 64, 16, 2), 1)
        address = scatter.upload(np.zeros(256, np.uint8))
        call.view_at("keyCacheRef", address, 256, strides)
        call.view_at("valueCacheRef", address, 256, strides, offset)
        assert call.run() == 0

    def test_caches_whose_common_rows_are_not_written_are_none(self, scatter: Any) -> None:
        """The second block of the one is the first block of the other."""
        call = scatter_calls.Call(scatter, slots=(0, 1, 2))
        address = scatter.upload(np.zeros(192, np.uint8))
        call.view_at("keyCacheRef", address, 192, call.key_cache.strides)
        call.view_at("valueCacheRef", address, 192, call.value_cache.strides, 64)
        assert call.run() == 0

    @pytest.mark.parametrize(
        ("slots", "kinds"),
        [((0, 1, 2), []), ((4, 5, 7), []), ((1, 4, 5), [TENSORS]), ((1, 0, 2), [TENSORS])],
        ids=["each in its place", "elsewhere", "on the next", "exchanged"],
    )
    def test_a_key_that_is_rows_of_the_cache(
        self, scatter: Any, reports: Any, slots: Sequence[int], kinds: list[str]
    ) -> None:
        call = scatter_calls.Call(scatter, heads=1, slots=slots)
        call.view_at("key", call.addresses["keyCacheRef"], call.key_cache.size, (8, 8, 1))
        assert call.run() == 0
        assert reports.kinds() == kinds

    def test_a_key_that_is_copied_in_front_of_the_kernel_is_none(self, scatter: Any) -> None:
        call = scatter_calls.Call(scatter, heads=1, slots=(1, 2, 0))
        call.view_at("key", call.addresses["keyCacheRef"], call.key_cache.size, (16, 16, 2))
        assert call.run() == 0

    def test_slots_in_the_cache(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter)
        address = call.addresses["valueCacheRef"]
        scatter.write(address, call.slots)
        call.view_at("slotMapping", address, 3, (1,))
        assert call.run() == 0
        (found,) = reports.take()
        assert "valueCacheRef, which it writes" in found["text"]
        assert "slotMapping, which it reads" in found["text"]

    def test_inputs_that_are_one_are_none(self, scatter: Any) -> None:
        call = scatter_calls.Call(scatter)
        call.view_at("value", call.addresses["key"], call.key.size, (16, 8, 1))
        assert call.run() == 0

    @pytest.mark.parametrize(
        ("name", "other"), [("vCacheRef", "kCacheRef"), ("qOut", "qkv"), ("qScale", "kScaleCacheRef")]
    )
    def test_of_the_fused_operator(self, qkv: Any, reports: Any, name: str, other: str) -> None:
        call = qkv_calls.Call(qkv).prepare()
        strides = [stride // call.arrays[name].itemsize for stride in call.arrays[name].strides]
        call.view_at(name, call.addresses[other], call.arrays[name].size, strides)
        assert call.run() == 0
        (found,) = reports.take()
        assert (f"{found['check']}:{found['kind']}", found["function"]) == (TENSORS, QKV)
        assert f"tensor {name}, which it writes" in found["text"]
        assert f"tensor {other}, which it {'reads' if other == 'qkv' else 'writes'}" in found["text"]

    def test_interleaved_caches_of_the_fused_operator_are_none(self, qkv: Any) -> None:
        call = qkv_calls.Call(qkv).prepare()
        address = qkv.upload(np.zeros(2048, np.uint8))
        for offset, name in enumerate(("kCacheRef", "vCacheRef")):
            call.view_at(name, address, 2048, (1024, 1024, 256, 1), 128 * offset)
        assert call.run() == 0

    def test_while_nobody_looks_for_races(self, scatter: Any, sim: Any) -> None:
        sim.aclsim_set_checks(b"mem,init,sync,api,leak")
        call = scatter_calls.Call(scatter)
        call.view_at("valueCacheRef", call.addresses["keyCacheRef"], call.key_cache.size, (0, 32, 8, 1))
        assert call.run() == 0


class TestRows:
    """Blocks of the K cache with a stride of 0 lie on each other: slots 0 and 4 are one, slots 0 and 5 are not."""

    STRIDES = (0, 32, 8, 1)

    def test_of_two_tokens(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, slots=(1, 6, 5))
        address = call.addresses["keyCacheRef"]
        call.view_at("keyCacheRef", address, call.key_cache.size, self.STRIDES)
        assert call.run() == 0
        (found,) = reports.take()
        assert (f"{found['check']}:{found['kind']}", found["function"]) == (ROWS, SCATTER)
        assert found["text"] == (
            "the strides of tensor keyCacheRef lay head 0 of token 0 (slot 1) and head 0 of token 2 (slot 5) on the "
            f"same memory: the call writes 16 bytes in 2 ranges, first the 8 at {address + 8:#x}, byte 8 of the "
            f"allocation of 128 bytes at {address:#x}, more than once; which row it keeps is undefined"
        )

    def test_of_one_token(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=1, slots=(2,))
        call.view_at("valueCacheRef", call.addresses["valueCacheRef"], call.value_cache.size, (64, 0, 8, 1))
        assert call.run() == 0
        (found,) = reports.take()
        assert "head 0 of token 0 (slot 2) and head 1 of token 0 (slot 2) on the same memory" in found["text"]

    def test_that_share_a_few_bytes(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, heads=1, slots=(0, 3, 2))
        call.view_at("keyCacheRef", call.addresses["keyCacheRef"], call.key_cache.size, (32, 32, 5, 1))
        assert call.run() == 0
        (found,) = reports.take()
        assert "head 0 of token 1 (slot 3) and head 0 of token 2 (slot 2)" in found["text"]
        assert "the call writes 3 bytes in 1 range" in found["text"]

    def test_that_no_token_has_are_none(self, scatter: Any) -> None:
        call = scatter_calls.Call(scatter, slots=(0, 5, 7))
        call.view_at("keyCacheRef", call.addresses["keyCacheRef"], call.key_cache.size, self.STRIDES)
        assert call.run() == 0

    def test_of_a_cache_that_is_copied(self, scatter: Any, reports: Any) -> None:
        """It goes back whole, so that every row is written."""
        call = scatter_calls.Call(scatter, tokens=1, slots=(0,))
        copied(call)
        call.view_at("keyCacheRef", call.addresses["keyCacheRef"], call.key_cache.size, self.STRIDES)
        assert call.run() == 0
        (found,) = reports.take()
        assert found["text"].startswith(
            "the strides of tensor keyCacheRef lay head 0 of token 0 (slot 0) and another on the same memory: the call "
            "writes 64 bytes in "
        )

    def test_of_the_fused_operator(self, qkv: Any, reports: Any) -> None:
        """Rows of K half a row apart; strides of V are those of K."""
        call = qkv_calls.Call(qkv, tokens=2, slots=(1, 2)).prepare()
        for name in ("kCacheRef", "vCacheRef"):
            call.view_at(name, call.addresses[name], 1024, (512, 512, 64, 1))
        assert call.run() == 0
        found = reports.take()
        assert [f"{r['check']}:{r['kind']}" for r in found] == [ROWS, ROWS]
        for report, name in zip(found, ("kCacheRef", "vCacheRef"), strict=True):
            assert f"{name} lay head 0 of token 0 (slot 1) and head 0 of token 1 (slot 2) on" in report["text"]
            assert "the call writes 64 bytes in 1 range" in report["text"]


class TestWorkspace:
    SIZE = scatter_calls.WORKSPACE

    def launch(self, device: Any, call: Any, workspace: int) -> None:
        status, size, executor = call.phase1() if isinstance(call, qkv_calls.Call) else device.phase1(call.handles)
        assert status == 0
        assert device.phase2(executor, size, workspace) == 0
        assert device.synchronize() == 0

    @pytest.mark.parametrize("checks", ["all", "init"])
    def test_on_a_cache(self, scatter: Any, reports: Any, sim: Any, checks: str) -> None:
        sim.aclsim_set_checks(checks.encode())
        call = scatter_calls.Call(scatter)
        before = np.full(self.SIZE + 512, 0xEE, np.uint8)
        workspace = scatter.upload(before)
        call.view_at("keyCacheRef", workspace + 512, call.key_cache.size, call.key_cache.strides)
        self.launch(scatter, call, workspace)
        rest = scatter.read(workspace, before)
        for token, slot in enumerate((0, 5, 7)):
            rows = rest[512 : 512 + 128].reshape(2, 2, 4, 8)[slot // 4, :, slot % 4]
            np.testing.assert_array_equal(rows, call.key[token])
            rows[...] = 0xEE
        np.testing.assert_array_equal(rest, before, "nothing but rows of the call")
        found = reports.take()
        assert [(f"{r['check']}:{r['kind']}", r["function"]) for r in found] == [(WORKSPACE, SCATTER)] * (
            checks == "all"
        )
        if found:
            assert found[0]["text"] == (
                f"the workspace, {self.SIZE} bytes at {workspace:#x}, overlaps tensor keyCacheRef from "
                f"{workspace + 512:#x} up to {workspace + 640:#x}, beginning with byte 512 of the workspace; a device "
                "may write there: give the workspace memory of its own"
            )

    def test_on_the_end_of_an_input(self, qkv: Any, reports: Any) -> None:
        call = qkv_calls.Call(qkv).prepare()
        memory = qkv.alloc(4096 + qkv_calls.WORKSPACE)
        qkv.write(memory, call.arrays["qkv"])
        call.view_at("qkv", memory, call.arrays["qkv"].size, (512, 128, 1))
        assert call.arrays["qkv"].nbytes == 3072
        self.launch(qkv, call, memory + 3071)
        (found,) = reports.take()
        assert f"overlaps tensor qkv from {memory + 3071:#x} up to {memory + 3072:#x}" in found["text"]
        assert (call.result("kCacheRef") != call.arrays["kCacheRef"]).any()

    def test_beside_a_tensor_is_none(self, qkv: Any) -> None:
        call = qkv_calls.Call(qkv).prepare()
        memory = qkv.alloc(3072 + qkv_calls.WORKSPACE)
        qkv.write(memory, call.arrays["qkv"])
        call.view_at("qkv", memory, call.arrays["qkv"].size, (512, 128, 1))
        self.launch(qkv, call, memory + 3072)

    def test_between_blocks_of_a_cache_is_none(self, scatter: Any) -> None:
        call = scatter_calls.Call(scatter)
        block = self.SIZE + 64
        memory = scatter.alloc(block + 64)
        call.view_at("keyCacheRef", memory, block + 64, (block, 32, 8, 1))
        self.launch(scatter, call, memory + 64)

    def test_in_the_extents_of_a_cache_that_has_less_memory_is_none(self, scatter: Any) -> None:
        """Its descriptor says a gigabyte; the workspace is another allocation."""
        call = scatter_calls.Call(scatter, tokens=1, slots=(0,))
        for name, row in (("keyCacheRef", 8), ("keyScaleCacheRef", 1)):
            strides = (8 * row, 4 * row, row, 1)
            call.view_at(name, call.addresses[name], 1, strides, dims=(2**24, 2, 4, row))
        workspace = scatter.alloc(self.SIZE)
        assert workspace > call.addresses["keyCacheRef"]
        self.launch(scatter, call, workspace)
