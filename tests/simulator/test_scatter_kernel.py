# SPDX-License-Identifier: Apache-2.0
"""What the scatter kernel leaves in memory, byte by byte."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scatter_calls as calls

FAULT = 507035


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


@pytest.mark.parametrize("dtype", [calls.E4M3FN, calls.E5M2])
@pytest.mark.parametrize("slot_dtype", [calls.INT32, calls.INT64])
@pytest.mark.parametrize(("key_head", "value_head"), [(8, 8), (16, 3), (1, 128)])
def test_rows_land_in_their_slots(device: Any, dtype: int, slot_dtype: int, key_head: int, value_head: int) -> None:
    call = calls.Call(
        device,
        dtype=dtype,
        slot_dtype=slot_dtype,
        key_head=key_head,
        value_head=value_head,
        slots=(6, 0, 3),
    )
    assert call.run() == 0
    call.check()


def test_every_byte_pattern_and_nan_payload_passes(device: Any) -> None:
    call = calls.Call(device, tokens=1, heads=2, key_head=256, value_head=256, blocks=1, block_size=1, slots=(0,))
    call.key[:] = np.arange(256, dtype=np.uint8)
    call.value[:] = np.arange(256, dtype=np.uint8)[::-1]
    call.scale.view(np.uint32)[:] = [[0x7FA00001, 0xFFC12345]]
    for name, array in (("key", call.key), ("value", call.value), ("keyScale", call.scale)):
        device.write(call.addresses[name], array)
    assert call.run() == 0
    call.check()


def test_padding_slots_are_skipped(device: Any) -> None:
    """Case D2."""
    call = calls.Call(device, heads=1, slots=(0, -1, 5))
    call.key[:] = np.array([0x38, 0x40, 0x44], np.uint8)[:, None, None]
    call.scale[:] = [[1], [2], [3]]
    device.write(call.addresses["key"], call.key)
    device.write(call.addresses["keyScale"], call.scale)
    assert call.run() == 0
    key_cache, _, scale_cache = call.caches()
    assert (key_cache[0, 0, 0] == 0x38).all()
    assert (key_cache[1, 0, 1] == 0x44).all()
    assert np.count_nonzero(key_cache != 0xAA) == 16
    assert sorted(scale_cache[scale_cache != -1]) == [1, 3]
    call.check(tokens=[0, 2])


@pytest.mark.parametrize("slot_dtype", [calls.INT32, calls.INT64])
def test_slots_beyond_the_cache_are_skipped(device: Any, slot_dtype: int) -> None:
    """Case D3: the device writes row 0 and leaves row 1 out."""
    call = calls.Call(device, tokens=4, slots=(7, 8, -(2**31), 2**31 - 1), slot_dtype=slot_dtype)
    assert call.run() == 0
    call.check(tokens=[0])


@pytest.mark.usefixtures("reports")
def test_duplicates_do_not_promise_that_the_last_one_wins(device: Any) -> None:
    """Case D4: K, V and scale may come from different tokens, and the use is reported."""
    call = calls.Call(device, tokens=2, slots=(1, 1))
    misuses = device.counter("ACLSIM_REPORTS")
    assert call.run() == 0
    key_cache, value_cache, scale_cache = call.caches()
    np.testing.assert_array_equal(key_cache, call.expected([0])[0])
    np.testing.assert_array_equal(value_cache, call.expected([1])[1])
    np.testing.assert_array_equal(scale_cache, call.expected([0])[2])
    assert device.counter("ACLSIM_REPORTS") == misuses + 1


def test_padded_cache_views(device: Any) -> None:
    """Case D10."""
    call = calls.Call(device, tokens=2, blocks=3, slots=(0, 11))
    call.key[0], call.key[1] = 0x38, 0x40
    call.scale[:] = [[0.5, 0.25], [2, 4]]
    device.write(call.addresses["key"], call.key)
    device.write(call.addresses["keyScale"], call.scale)
    key_base, value_base = np.full((3, 2, 4, 16), 0xAA, np.uint8), np.full((3, 2, 4, 16), 0x55, np.uint8)
    key_address = call.view("keyCacheRef", key_base, (128, 64, 16, 1))
    value_address = call.view("valueCacheRef", value_base, (128, 64, 16, 1))
    assert call.run() == 0
    got = device.read(key_address, key_base)
    assert (got[0, :, 0, :8] == 0x38).all()
    assert (got[2, :, 3, :8] == 0x40).all()
    assert [int(np.count_nonzero(got == byte)) for byte in (0x38, 0x40, 0xAA)] == [16, 16, 352]
    value_base[0, :, 0, :8], value_base[2, :, 3, :8] = call.value
    np.testing.assert_array_equal(device.read(value_address, value_base), value_base)
    _, _, scale_cache = call.caches()
    places = [(0, 0, 0), (0, 1, 0), (2, 0, 3), (2, 1, 3)]
    assert [float(scale_cache[place][0]) for place in places] == [0.5, 0.25, 2, 4]
    assert np.count_nonzero(scale_cache != -1) == 4


def test_key_and_value_cache_interleaved_in_one_allocation(device: Any) -> None:
    call = calls.Call(device)
    both = np.full((2, 2, 2, 4, 8), 0xEE, np.uint8)  # block, K or V, head, row, D
    address = device.upload(both)
    for index, name in enumerate(("keyCacheRef", "valueCacheRef")):
        call.view_at(name, address, both.size, (128, 32, 8, 1), offset=64 * index)
    assert call.run() == 0
    for token, slot in enumerate(call.slots):
        block, row = divmod(int(slot), 4)
        both[block, 0, :, row], both[block, 1, :, row] = call.key[token], call.value[token]
    np.testing.assert_array_equal(device.read(address, both), both)


def test_token_major_storage_and_an_offset_layer(device: Any) -> None:
    call = calls.Call(device)
    layers = np.full((3, 2, 4, 2, 8), 0xEE, np.uint8)  # layer, block, row, head, D
    address = call.view("keyCacheRef", layers, (64, 8, 16, 1), offset=128)
    scales = np.full((3, 2, 4, 2), 9, np.float32)
    scale_address = call.view("keyScaleCacheRef", scales, (8, 1, 2, 1), offset=16)
    assert call.run() == 0
    for token, slot in enumerate(call.slots):
        block, row = divmod(int(slot), 4)
        layers[1, block, row], scales[1, block, row] = call.key[token], call.scale[token]
    np.testing.assert_array_equal(device.read(address, layers), layers)
    np.testing.assert_array_equal(device.read(scale_address, scales), scales)


def test_key_sliced_out_of_a_fused_buffer_and_transposed_scales(device: Any) -> None:
    call = calls.Call(device)
    fused = np.zeros((3, 5, 8), np.uint8)
    fused[:, 1:3], fused[:, 3:5] = call.key, call.value
    address = device.upload(fused)
    call.view_at("key", address, fused.size, (40, 8, 1), offset=8)
    call.view_at("value", address, fused.size, (40, 8, 1), offset=24)
    call.view("keyScale", call.scale.T.copy(), (1, 3))
    assert call.run() == 0
    call.check()


def test_zero_strides_are_accepted(device: Any) -> None:
    call = calls.Call(device)
    row = np.arange(8, dtype=np.uint8)
    call.view("key", row, (0, 0, 1))
    call.key[:] = row
    assert call.run() == 0
    call.check()


def test_strided_slots(device: Any) -> None:
    call = calls.Call(device, slot_dtype=calls.INT64)
    call.view("slotMapping", np.array([0, 99, 5, 99, 7, 99], np.int64), (2,))
    assert call.run() == 0
    call.check()


@pytest.mark.provokes("sync:read_before_synchronise", "sync:write_before_synchronise")
def test_slots_are_read_when_the_kernel_runs(device: Any) -> None:
    call = calls.Call(device)
    status, size, executor = device.phase1(call.handles)
    workspace = device.alloc(size)
    device.sim.aclsim_hold_streams()
    try:
        assert (status, device.phase2(executor, size, workspace)) == (0, 0)
        call.check(tokens=[])
        call.slots[:] = [1, 2, 3]
        device.write(call.addresses["slotMapping"], call.slots)
    finally:
        device.sim.aclsim_release_streams()
    assert device.synchronize() == 0
    call.check()


class TestNarrowIndices:
    """T*N*max(Dk, Dv) <= 2^31-1 makes the kernel compute modulo 2^32."""

    def test_int64_slots_alias(self, device: Any, reports: Any) -> None:
        call = calls.Call(device, slots=(2**32 + 3, 2**40, -(2**32) + 1), slot_dtype=calls.INT64)
        assert call.run() == 0
        assert reports.kinds() == ["mem:wrapped_slot"] * 2
        call.slots[:] = [3, 0, -1]
        call.check(tokens=[0, 1])

    def test_a_block_stride_wraps(self, device: Any, reports: Any) -> None:
        call = calls.Call(device)
        call.view_at("keyCacheRef", call.addresses["keyCacheRef"], 2**33, (2**32 + 64, 32, 8, 1))
        assert call.run() == 0
        call.check()
        found = reports.take()
        assert {(report["check"], report["kind"]) for report in found} == {("mem", "wrapped_offset")}
        assert found[0]["text"] == (
            "token 1: element 4294967368 of tensor keyCacheRef is beyond the kernel's 32 bits, which leave element 72: "
            "that one is overwritten; split caches that are this large"
        )

    def test_the_limit_wraps(self, device: Any, reports: Any) -> None:
        """B*S = 2^32 + 4 with B = 2 allows 4 slots only."""
        call = calls.Call(device, tokens=4, slots=(1, 3, 4, 7))
        half = 2**31 + 2
        call.view_at("keyCacheRef", call.addresses["keyCacheRef"], 1, (0, 32, 8, 1), dims=(2, 2, half, 8))
        call.view_at("keyScaleCacheRef", call.addresses["keyScaleCacheRef"], 1, (0, 4, 1, 1), dims=(2, 2, half, 1))
        assert call.run() == 0
        (report,) = reports.take()
        assert (report["check"], report["kind"]) == ("mem", "wrapped_limit")
        assert report["text"].startswith("the caches have 4294967300 slots, of which the kernel's 32 bits leave 4: ")
        call.check(tokens=[0, 1])

    @pytest.mark.usefixtures("reports")
    def test_a_row_that_wraps_faults_where_its_first_half_lies(self, device: Any) -> None:
        """The row of head 1 begins 4 elements below 2^32, where nothing is; head 0 is written."""
        call = calls.Call(device, tokens=1, slots=(0,))
        call.view_at("keyCacheRef", call.addresses["keyCacheRef"], 1, (64, 2**32 - 4, 8, 1))
        assert call.run() == FAULT
        key_cache, _, _ = call.caches()
        np.testing.assert_array_equal(key_cache[0, 0, 0], call.key[0, 0])

    def test_wide_indices_skip_what_narrow_ones_alias(self, device: Any) -> None:
        """T*N*D = 2^31: the same slot is beyond the limit."""
        tokens = 2**17
        slots = np.full(tokens, -1, np.int64)
        slots[:2] = 2**32 + 3, 5
        call = calls.Call(device, slots=(0, 0, 0), slot_dtype=calls.INT64)
        row = np.full(2**13, 0x38, np.uint8)
        cache = np.full((2, 2, 4, 2**13), 0xAA, np.uint8)
        call.view("key", row, (0, 0, 1), dims=(tokens, 2, 2**13))
        call.view("slotMapping", slots, (1,), dims=(tokens,))
        call.view("keyScale", np.full(1, 2.5, np.float32), (0, 0), dims=(tokens, 2))
        address = call.view("keyCacheRef", cache, (2**16, 2**15, 2**13, 1), dims=cache.shape)
        assert call.run() == 0
        cache[1, :, 1] = 0x38
        np.testing.assert_array_equal(device.read(address, cache), cache)


@pytest.mark.usefixtures("cheap_checks")
class TestStrays:
    def test_a_smaller_value_cache_writes_into_its_neighbour(self, device: Any) -> None:
        """valueCache's blocks are not checked: block 1 lies behind the view, in live memory."""
        call = calls.Call(device)
        arena = np.full(256, 0x55, np.uint8)
        address = device.upload(arena)
        call.view_at("valueCacheRef", address, 64, (64, 32, 8, 1), dims=(1, 2, 4, 8))
        assert call.run() == 0
        wanted = call.expected()[1]
        np.testing.assert_array_equal(device.read(address, arena)[:128], wanted.ravel())
        assert (device.read(address, arena)[128:] == 0x55).all()

    def test_another_allocation_is_hit(self, device: Any) -> None:
        call = calls.Call(device, slots=(0, 1, 2), key_head=32, value_head=32)
        victim = np.full(8192, 0x77, np.uint8)
        address = device.upload(victim)
        distance = (address - call.addresses["valueCacheRef"]) % 2**64
        if distance >= 2**31:
            pytest.skip("the allocator put the later one far below")
        call.view_at("valueCacheRef", call.addresses["valueCacheRef"], 1, (0, distance, 32, 1))
        assert call.run() == 0
        victim[:96] = call.value[:, 1].ravel()
        np.testing.assert_array_equal(device.read(address, victim), victim)

    def test_outside_memory_is_a_fault_at_the_next_synchronise(self, device: Any) -> None:
        call = calls.Call(device)
        call.view_at("valueCacheRef", call.addresses["valueCacheRef"], 1, (2**31, 32, 8, 1))
        assert call.run() == FAULT
        key_cache, value_cache, _ = call.caches()
        np.testing.assert_array_equal(key_cache, call.expected()[0])
        np.testing.assert_array_equal(value_cache[0], call.expected([0])[1][0])
        assert device.synchronize() == 0, "reported once"
        later = calls.Call(device)
        assert later.run() == 0
        later.check()

    def test_reading_outside_memory_is_a_fault(self, device: Any) -> None:
        call = calls.Call(device)
        call.view_at("slotMapping", 4096, 3, (1,))
        assert call.run() == FAULT
        call.check(tokens=[])

    def test_no_data_is_a_fault(self, device: Any) -> None:
        call = calls.Call(device)
        device.destroy(call.tensors["key"])
        call.tensors["key"] = device.tensor((3, 2, 8), calls.E4M3FN, None)
        assert call.run() == FAULT


class TestCopyPath:
    def test_strided_last_axes_come_back(self, device: Any) -> None:
        call = calls.Call(device)
        base = np.full((2, 2, 4, 8, 2), 0xAA, np.uint8)
        address = call.view("keyCacheRef", base, (128, 64, 16, 2))
        call.view("key", call.key.repeat(2), (32, 16, 2))
        assert call.run() == 0
        base[..., 0] = call.expected()[0]
        np.testing.assert_array_equal(device.read(address, base), base)
        np.testing.assert_array_equal(call.caches()[1], call.expected()[1])

    def test_padded_caches_are_written_back_whole(self, device: Any) -> None:
        """The scale cache's last stride of 0 takes the padded K cache along."""
        call = calls.Call(device)
        base = np.full((2, 2, 4, 16), 0xAA, np.uint8)
        address = call.view("keyCacheRef", base, (128, 64, 16, 1))
        call.view_at("keyScaleCacheRef", call.addresses["keyScaleCacheRef"], 16, (8, 4, 1, 0))
        assert call.run() == 0
        base[..., :8] = call.expected()[0]
        np.testing.assert_array_equal(device.read(address, base), base)
        np.testing.assert_array_equal(call.caches()[2], call.expected()[2])

    @pytest.mark.usefixtures("cheap_checks")
    def test_copies_need_their_workspace(self, device: Any) -> None:
        call = calls.Call(device)
        call.view("key", call.key.repeat(2), (32, 16, 2))
        status, size, executor = device.phase1(call.handles)
        misuses = device.counter("ACLSIM_REPORTS")
        assert (status, size) == (0, calls.WORKSPACE + 512)
        assert device.phase2(executor) == 0
        assert device.synchronize() == FAULT
        assert device.counter("ACLSIM_REPORTS") == misuses + 1
        call.check(tokens=[])

    @pytest.mark.usefixtures("reports")
    def test_dense_tensors_need_none(self, device: Any) -> None:
        call = calls.Call(device)
        _, _, executor = device.phase1(call.handles)
        assert device.phase2(executor, 16, device.alloc(16)) == 0
        assert device.synchronize() == 0
        call.check()


@pytest.mark.usefixtures("reports")
def test_concurrent_calls(device: Any, sim: Any) -> None:
    """Threads with streams of their own; ctypes lets the calls overlap."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            own = calls.Device(sim)
            for _ in range(20):
                dense, strided = calls.Call(own), calls.Call(own)
                strided.view("keyScale", strided.scale.T.copy(), (1, 3))
                for call in (dense, strided):
                    status, size, executor = own.phase1(call.handles)
                    assert (status, size) == (0, calls.WORKSPACE)
                    assert own.phase2(executor) == 0
                assert own.synchronize() == 0
                dense.check()
                strided.check()
            own.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_phase_2_on_another_thread(device: Any, sim: Any) -> None:
    call = calls.Call(device)
    status, size, executor = device.phase1(call.handles)
    context = ctypes.c_void_p()
    assert (status, sim.aclrtGetCurrentContext(ctypes.byref(context))) == (0, 0)
    workspace = device.alloc(size)
    answers: list[int] = []

    def second() -> None:
        answers.append(sim.aclrtSetCurrentContext(context))
        answers.append(device.phase2(executor, size, workspace))

    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
    assert answers == [0, 0]
    assert device.synchronize() == 0
    call.check()
