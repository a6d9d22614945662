# SPDX-License-Identifier: Apache-2.0
"""API check: what phase 1 and 2 are given, and what CANN takes although the kernel cannot do with it what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import qkv_calls
import scatter_calls

QKV, SCATTER = "aclnnQkvRmsNormRopeCacheWithKScale", "aclnnScatterPaKvCacheWithKScale"


@pytest.fixture
def scatter(sim: Any) -> Iterator[Any]:
    device = scatter_calls.Device(sim)
    yield device
    device.close()


@pytest.fixture
def qkv(sim: Any) -> Iterator[Any]:
    device = qkv_calls.Device(sim)
    yield device
    device.close()


def only(reports: Any, kind: str, function: str) -> str:
    """The text of the one report."""
    (found,) = reports.take()
    assert (found["check"], found["kind"], found["function"]) == ("api", kind, function)
    return str(found["text"])


class TestAlignment:
    @pytest.mark.parametrize(("name", "over"), [("keyCacheRef", 3), ("keyScaleCacheRef", 16), ("slotMapping", 31)])
    def test_a_storage_that_begins_in_between(self, scatter: Any, reports: Any, name: str, over: int) -> None:
        call = scatter_calls.Call(scatter)
        array = call.arrays[name]
        base = scatter.upload(np.zeros(array.nbytes + 32, np.uint8)) + over
        scatter.write(base, array)
        scatter.destroy(call.tensors[name])
        call.tensors[name] = scatter.tensor(array.shape, call.dtypes[name], base)
        call.addresses[name] = base
        assert call.run() == 0, "to CANN it is as good as any"
        assert only(reports, "misaligned", SCATTER) == (
            f"the data of tensor {name} begins at {base:#x}, {over} bytes behind a multiple of 32; what a device does "
            "with it is undefined: pass the aligned start of the memory, and say by the tensor's offset where it begins"
        )
        call.check()

    def test_a_view_may_begin_anywhere(self, scatter: Any) -> None:
        call = scatter_calls.Call(scatter)
        call.view("key", np.zeros(64, np.uint8), (16, 8, 1), 3)
        assert call.run() == 0

    def test_of_the_fused_operator(self, qkv: Any, reports: Any) -> None:
        call = qkv_calls.Call(qkv).prepare()
        base = qkv.upload(np.ones(256, np.float32)) + 4
        call.view_at("qGamma", base, 128, (1,))
        assert call.run() == 0
        assert only(reports, "misaligned", QKV).startswith(
            f"the data of tensor qGamma begins at {base:#x}, 4 bytes behind"
        )


def batches(call: Any, starts: Sequence[int], lengths: Sequence[int]) -> Any:
    call.arrays["queryStartLoc"] = np.array(starts, np.int32)
    call.arrays["seqLens"] = np.array(lengths, np.int32)
    return call


class TestBatches:
    """Five tokens, and a table of 16 rows."""

    @pytest.mark.parametrize(
        ("starts", "batch", "start", "end"),
        [((0, 3, 9), 1, 3, 9), ((0, 5, 3), 1, 5, 3), ((-3, 3, 5), 0, -3, 3), ((0, -1, 5), 0, 0, -1)],
    )
    def test_that_are_none(
        self, qkv: Any, reports: Any, starts: Sequence[int], batch: int, start: int, end: int
    ) -> None:
        call = batches(qkv_calls.Call(qkv, tokens=5), starts, (3, 12))
        assert call.run() == 0
        assert only(reports, "batch_out_of_range", QKV) == (
            f"queryStartLoc has batch {batch} begin at token {start} and end before {end}, of 5 tokens; positions come "
            "out wrong: pass starts from 0 to 5 that never fall"
        )

    @pytest.mark.parametrize("length", [2, 0])
    def test_longer_than_their_sequence(self, qkv: Any, reports: Any, length: int) -> None:
        call = batches(qkv_calls.Call(qkv, tokens=5), (0, 2, 5), (2, length))
        assert call.run() == 0
        assert only(reports, "length_below_tokens", QKV) == (
            f"seqLens has {length} for batch 1, which has 3 tokens in this call; the kernel takes it for one without "
            "history: count history and tokens"
        )

    @pytest.mark.parametrize(
        ("starts", "lengths"),
        [
            ((0, 5), (5,)),
            ((0, 2, 5), (7, 3)),
            ((0, 0, 5), (0, 16)),
            ((0, 3, 3, 3), (3, 0, 0)),  # tokens behind the last batch are padding
            ((1, 5), (4,)),
        ],
    )
    def test_good_ones_are_none(self, qkv: Any, starts: Sequence[int], lengths: Sequence[int]) -> None:
        assert batches(qkv_calls.Call(qkv, tokens=5), starts, lengths).run() == 0


class TestOutputs:
    @pytest.mark.parametrize("name", ["qOut", "qScale"])
    def test_strides_that_the_kernel_ignores(self, qkv: Any, reports: Any, name: str) -> None:
        call = qkv_calls.Call(qkv).prepare()
        array = call.arrays[name]
        strides = [2 * int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim - 1)]
        strides = [*strides, 1] if name == "qOut" else [2 * array.shape[1], 2]
        base = call.view(name, np.zeros(2 * array.size, array.dtype), strides)
        assert call.run() == 0
        assert only(reports, "strides_ignored", f"{QKV}GetWorkspaceSize") == (
            f"tensor {name} has gaps between its elements or another order, and the kernel writes it as if it were "
            "dense: pass a dense one, and copy from there"
        )
        assert (qkv.read(base, array) != 0).all(), "as the text says"

    def test_a_part_of_a_larger_output_is_none(self, qkv: Any) -> None:
        call = qkv_calls.Call(qkv).prepare()
        array = call.arrays["qOut"]
        call.view("qOut", np.zeros(2 * array.size, np.uint8), (256, 128, 1), array.size)
        assert call.run() == 0


def test_a_slot_outside_gets_the_range(qkv: Any, reports: Any) -> None:
    qkv_calls.Call(qkv, tokens=1, heads=(1, 1, 1), slots=(8,)).run()
    assert reports.take()[0]["text"] == (
        "slot 8 of token 0 is outside the 8 slots of the caches; the kernel skips none: pass slots from 0 to 7"
    )
