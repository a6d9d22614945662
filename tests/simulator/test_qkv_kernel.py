# SPDX-License-Identifier: Apache-2.0
"""Where the fused operator's kernel reads and writes: positions, layouts, strides, slots that nobody checks."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import qkv_calls as calls
from qkv_calls import ONE_HOT, busy, one_hot, same


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


class TestPositions:
    """The table's row p is cos p, sin 0, so that a row of ones becomes p and its scale tells the position."""

    def positions(self, device: Any, tokens: int, starts: Sequence[int], lengths: Sequence[int]) -> list[float]:
        call = calls.Call(device, tokens, (1, 1, 1), blocks=1, block_size=tokens, rows=64)
        call.arrays["cosSin"][:, :64] = np.arange(64)[:, None]
        call.arrays["queryStartLoc"] = np.array(starts, np.int32)
        call.arrays["seqLens"] = np.array(lengths, np.int32)
        assert call.run() == 0
        scales = call.result("qScale")[:, 0]
        np.testing.assert_array_equal(scales, call.result("kScaleCacheRef")[0, 0, :, 0])
        return np.rint(scales * 448).tolist()

    def test_two_batches_with_history(self, device: Any) -> None:
        assert self.positions(device, 5, [0, 2, 5], [7, 13]) == [5, 6, 10, 11, 12]

    def test_no_history(self, device: Any) -> None:
        assert self.positions(device, 4, [0, 4], [4]) == [0, 1, 2, 3]

    def test_empty_batches(self, device: Any) -> None:
        assert self.positions(device, 3, [0, 0, 2, 2, 3], [9, 6, 9, 30]) == [4, 5, 29]

    @pytest.mark.provokes("api:length_below_tokens")
    def test_a_length_below_the_tokens_restarts_at_0(self, device: Any) -> None:
        assert self.positions(device, 4, [0, 2, 4], [9, 1]) == [7, 8, 0, 1]

    def test_tokens_behind_the_last_batch(self, device: Any) -> None:
        assert self.positions(device, 5, [0, 2], [12]) == [10, 11, 2, 3, 4]

    def test_tokens_in_front_of_the_first_batch(self, device: Any) -> None:
        assert self.positions(device, 4, [2, 4], [12]) == [0, 1, 10, 11]

    @pytest.mark.provokes("api:batch_out_of_range")
    def test_the_cursor_goes_forward_only(self, device: Any) -> None:
        """Batch 1 would be tokens 4 up to 2, none; batch 2 starts at 2, so tokens 4 and 5 are its third and fourth."""
        assert self.positions(device, 6, [0, 4, 2, 6], [4, 50, 24]) == [0, 1, 2, 3, 22, 23]

    @pytest.mark.usefixtures("reports")
    def test_a_negative_length_reads_in_front_of_the_table(self, device: Any) -> None:
        """-1 less 2 tokens is position -3, here a row of the same memory."""
        call = calls.Call(device, 2, (1, 1, 1), rows=4)
        call.arrays["seqLens"][:] = -1
        call.prepare()
        base = np.zeros((8, 128), np.float32)
        base[:, :64] = np.arange(8)[:, None]
        call.view("cosSin", base, (128, 1), offset=512)
        assert call.run() == 0
        np.testing.assert_array_equal(np.rint(call.result("qScale")[:, 0] * 448), [1, 2])

    @pytest.mark.provokes("sync:read_before_synchronise", "sync:write_before_synchronise")
    def test_positions_are_read_when_the_kernel_runs(self, device: Any) -> None:
        call = calls.Call(device, 1, (1, 1, 1), rows=64)
        call.arrays["cosSin"][:, :64] = np.arange(64)[:, None]
        call.prepare()
        status, size, executor = call.phase1()
        workspace = device.alloc(size)
        device.sim.aclsim_hold_streams()
        try:
            assert (status, device.phase2(executor, size, workspace)) == (0, 0)
            assert call.is_untouched()
            device.write(call.addresses["seqLens"], np.array([31], np.int32))
        finally:
            device.sim.aclsim_release_streams()
        assert device.synchronize() == 0
        assert call.result("qScale")[0, 0] == np.float32(30) / np.float32(448)


@pytest.mark.parametrize("heads", [(2, 1, 1), (5, 3, 3)])
@pytest.mark.parametrize("layouts", [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD")])
def test_layouts_and_slots(device: Any, heads: tuple[int, int, int], layouts: tuple[str, str]) -> None:
    """Each row is one-hot in a channel of its own, which comes back at the place of its token and head."""
    tokens, slots = 5, (7, 0, 3, 6, 1)
    call = calls.Call(device, tokens, heads, slots=slots, layouts=layouts)
    channels = np.arange(tokens * sum(heads)).reshape(tokens, sum(heads)) * 7 % 128
    call.arrays["qkv"][:] = one_hot(channels, np.arange(tokens)[:, None] + 1.0 + 0 * channels)
    call.arrays["qGamma"][:] = 2
    assert call.run() == 0
    got = call.results()
    q, k, _ = heads
    scale = np.float32(ONE_HOT) / np.float32(448)
    np.testing.assert_array_equal(got["qOut"].argmax(-1), channels[:, :q])
    assert (got["qScale"] == 2 * scale).all()
    written = np.zeros(8, bool)
    for token, slot in enumerate(slots):
        block, row = divmod(slot, 4)
        written[slot] = True
        k_rows, v_rows = got["kCacheRef"][block, :, row], got["vCacheRef"][block, :, row]
        np.testing.assert_array_equal(k_rows.argmax(-1), channels[token, q : q + k])
        np.testing.assert_array_equal(v_rows.argmax(-1), channels[token, q + k :])
        assert (k_rows.max(-1) == 0x7E).all()
        assert (v_rows.max(-1) == [0x38, 0x40, 0x44, 0x48, 0x4A][token]).all()
        assert (got["kScaleCacheRef"][block, :, row] == scale).all()
    for name, free in (("kCacheRef", 0xAA), ("vCacheRef", 0x55), ("kScaleCacheRef", -1)):
        by_slot = got[name].swapaxes(1, 2).reshape(8, -1)
        assert (by_slot[~written] == free).all()


def spread(device: Any, call: Any, name: str) -> int:
    """Makes an input a view with a gap behind every element; the address of its base."""
    array = call.stored(name)
    base = np.full((*array.shape[:-1], array.shape[-1], 2), 0x7B, array.dtype)
    base[..., 0] = array
    strides = [2 * stride // array.itemsize for stride in array.strides]
    return call.view(name, base, strides)


@pytest.mark.usefixtures("reports")
def test_strided_inputs_are_copied(device: Any) -> None:
    dense = busy(device)
    assert dense.run() == 0
    strided = busy(device).prepare()
    for name in (n for n in calls.NAMES if n not in calls.RESULTS):
        spread(device, strided, name)
    assert strided.run() == 0
    same(strided.results(), dense.results())
    _, size, executor = strided.phase1()
    assert size > calls.WORKSPACE
    assert device.phase2(executor) == 0
    assert device.synchronize() == 507015, "copies need their workspace"


def test_offsets_and_negative_strides(device: Any) -> None:
    dense, backward = busy(device), busy(device).prepare()
    dense.arrays["qkv"] = dense.arrays["qkv"][::-1].copy()
    assert dense.run() == 0
    backward.view("qkv", np.concatenate([np.zeros(9, np.uint16), backward.arrays["qkv"].ravel()]), (-512, 128, 1), 1033)
    assert backward.run() == 0
    same(backward.results(), dense.results())


@pytest.mark.provokes("api:strides_ignored")
def test_outputs_are_written_as_if_they_were_dense(device: Any) -> None:
    dense, strided = busy(device), busy(device).prepare()
    assert dense.run() == 0
    address = strided.view("qOut", np.zeros((3, 2, 256), np.uint8), (512, 256, 1))
    assert strided.run() == 0
    got = device.read(address, np.zeros(3 * 2 * 256, np.uint8))
    np.testing.assert_array_equal(got[:768], dense.result("qOut").ravel())
    assert not got[768:].any()


class TestStridedCaches:
    def test_interleaved_in_one_allocation(self, device: Any) -> None:
        dense, call = busy(device), busy(device).prepare()
        assert dense.run() == 0
        both = np.full((2, 2, 1, 4, 128), 0xEE, np.uint8)  # block, K or V, head, row, D
        address = device.upload(both)
        for index, name in enumerate(("kCacheRef", "vCacheRef")):
            call.view_at(name, address, both.size, (1024, 512, 128, 1), offset=512 * index)
        assert call.run() == 0
        for index, name in enumerate(("kCacheRef", "vCacheRef")):
            both[0, index, :, :3] = dense.result(name)[0, :, :3]
        np.testing.assert_array_equal(device.read(address, both), both)

    def test_token_major_with_padding_and_a_layer(self, device: Any) -> None:
        options: dict[str, Any] = {"heads": (2, 3, 3), "slots": (7, 2, 4)}
        dense, call = busy(device, **options), busy(device, **options).prepare()
        assert dense.run() == 0
        layers = np.full((3, 2, 4, 3, 160), 0xEE, np.uint8)  # layer, block, row, head, padded D
        strides, offset = (1920, 160, 480, 1), 3840
        k_address = call.view("kCacheRef", layers, strides, offset)
        v_address = call.view("vCacheRef", layers, strides, offset)
        scales = np.full((2, 4, 3), 9, np.float32)
        s_address = call.view("kScaleCacheRef", scales, (12, 1, 3, 1))
        assert call.run() == 0
        for address, name in ((k_address, "kCacheRef"), (v_address, "vCacheRef")):
            wanted = layers.copy()
            for slot in options["slots"]:
                block, row = divmod(slot, 4)
                wanted[1, block, row, :, :128] = dense.result(name)[block, :, row]
                scales[block, row] = dense.result("kScaleCacheRef")[block, :, row, 0]
            np.testing.assert_array_equal(device.read(address, layers), wanted)
        np.testing.assert_array_equal(device.read(s_address, scales), scales)


@pytest.mark.usefixtures("cheap_checks")
class TestStrays:
    def test_slot_minus_one_is_the_last_row_in_front_of_the_cache(self, device: Any) -> None:
        """Case D2: not skipped. In front of the views lies live memory of another allocation."""
        call = busy(device, tokens=1, heads=(1, 1, 1), slots=(3,))
        assert call.run() == 0
        wanted = call.results()
        victim = np.full(1 << 16, 0x77, np.uint8)
        victim_address = device.upload(victim)
        stray = busy(device, tokens=1, heads=(1, 1, 1), slots=(-1,)).prepare()
        places = {}
        for name, row in (("kCacheRef", 3 * 128), ("vCacheRef", 3 * 128), ("kScaleCacheRef", 3 * 4)):
            item = 4 if name == "kScaleCacheRef" else 1
            if not 0 <= stray.addresses[name] - (1 << 15) - victim_address < (1 << 16) - 512:
                pytest.skip("the allocator put the caches elsewhere")
            places[name] = stray.addresses[name] - (1 << 15) + row - victim_address
            strides = [(1 << 15) // item, 512 // item, 128 // item, 1] if item == 1 else [1 << 13, 4, 1, 1]
            stray.view_at(name, stray.addresses[name], 1, strides)
        misuses = device.counter("ACLSIM_REPORTS")
        assert stray.run() == 0
        assert device.counter("ACLSIM_REPORTS") == misuses + 1
        for name, place in places.items():
            row = wanted[name][0, 0, 3].view(np.uint8)
            victim[place : place + len(row)] = row
        np.testing.assert_array_equal(device.read(victim_address, victim), victim)
        for name in calls.CACHES:
            np.testing.assert_array_equal(stray.result(name), stray.arrays[name])

    def test_slot_minus_one_of_a_layer_hits_the_layer_before(self, device: Any) -> None:
        call = busy(device, tokens=1, heads=(1, 1, 1), slots=(-1,)).prepare()
        layers = np.full((3, 2, 1, 4, 128), 0xEE, np.uint8)
        scales = np.full((3, 2, 1, 4), 9, np.float32)
        addresses = [call.view(n, layers, (512, 512, 128, 1), 1024) for n in ("kCacheRef", "vCacheRef")]
        scale_address = call.view("kScaleCacheRef", scales, (4, 4, 1, 1), 8)
        assert call.run() == 0
        for address in addresses:
            changed = (device.read(address, layers) != 0xEE).reshape(-1, 128).any(-1)
            assert np.flatnonzero(changed).tolist() == [7], "layer 0, block 1, row 3"
        assert np.flatnonzero(device.read(scale_address, scales) != 9).tolist() == [7]

    @pytest.mark.parametrize("slot", [-1, 8, 2**31 - 1, -(2**31)])
    def test_outside_memory_is_a_fault_at_the_next_synchronise(self, device: Any, slot: int) -> None:
        call = busy(device, tokens=1, heads=(1, 1, 1), slots=(slot,)).prepare()
        # Blocks so far apart that no other block is in the device's address space.
        for name in calls.CACHES:
            call.view_at(name, call.addresses[name], 1, (2**34, 512, 128, 1))
        assert call.run() == 507015
        assert device.synchronize() == 0, "reported once"
        np.testing.assert_array_equal(call.result("kCacheRef"), call.arrays["kCacheRef"])
        later = calls.Call(device)
        assert later.run() == 0

    @pytest.mark.parametrize("block_size", [3, 4])
    def test_a_dense_cache_at_the_start_of_its_memory(self, device: Any, block_size: int) -> None:
        """Case D2: nothing is registered in front of the cache, or where a block size of 3 leads."""
        call = busy(device, tokens=1, heads=(1, 1, 1), slots=(-1,), block_size=block_size)
        assert call.run() == 507015
        for name in calls.CACHES:
            np.testing.assert_array_equal(call.result(name), call.arrays[name])

    @pytest.mark.parametrize("length", [17, 2**31 - 1, -(2**31)])
    def test_a_table_read_outside_memory_is_a_fault(self, device: Any, length: int) -> None:
        call = busy(device, tokens=1, heads=(1, 1, 1), rows=16)
        call.arrays["seqLens"][:] = length
        misuses = device.counter("ACLSIM_REPORTS")
        assert call.run() == 507015
        assert device.counter("ACLSIM_REPORTS") == misuses + 1
        assert call.is_untouched()

    def test_a_table_may_end_with_the_last_position(self, device: Any) -> None:
        call = busy(device, tokens=1, rows=16)
        call.arrays["seqLens"][:] = 16
        assert call.run() == 0

    @pytest.mark.parametrize("name", [n for n in calls.NAMES if n not in calls.RESULTS])
    def test_an_input_outside_memory_is_a_fault(self, device: Any, name: str) -> None:
        call = busy(device).prepare()
        assert device.sim.aclSetRawTensorAddr(call.tensors[name], 4096) == 0
        assert call.run() == 507015

    @pytest.mark.parametrize("name", calls.RESULTS)
    def test_no_memory_for_a_result_is_a_fault(self, device: Any, name: str) -> None:
        call = busy(device).prepare()
        assert device.sim.aclSetRawTensorAddr(call.tensors[name], None) == 0
        assert call.run() == 507015


@pytest.mark.usefixtures("reports")
def test_duplicates_do_not_promise_that_the_last_one_wins(device: Any) -> None:
    """K and V of the slot may come from different tokens, and the use is reported."""
    call = calls.Call(device, tokens=2, heads=(1, 1, 1), slots=(1, 1))
    call.arrays["qkv"][:] = one_hot([[0, 0, 0], [1, 1, 1]])
    misuses = device.counter("ACLSIM_REPORTS")
    assert call.run() == 0
    assert device.counter("ACLSIM_REPORTS") == misuses + 1
    got = call.results()
    assert got["kCacheRef"][0, 0, 1].argmax() == 0
    assert got["vCacheRef"][0, 0, 1].argmax() == 1


def test_concurrent_calls(device: Any, sim: Any) -> None:
    """Threads with streams of their own give what one alone gives."""
    alone = busy(device)
    assert alone.run() == 0
    wanted = alone.results()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            own = calls.Device(sim)
            for _ in range(5):
                call = busy(own)
                assert call.run() == 0
                same(call.results(), wanted)
            own.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
