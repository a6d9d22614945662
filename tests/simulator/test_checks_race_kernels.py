# SPDX-License-Identifier: Apache-2.0
"""racecheck: what the operators' kernels touch, row by row, and slots that several tokens of one call share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import qkv_calls
import scatter_calls as calls
from runtime_calls import Runtime
from streams import Streams

SCATTER, QKV = "aclnnScatterPaKvCacheWithKScale", "aclnnQkvRmsNormRopeCacheWithKScale"


@pytest.fixture
def device(sim: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    device = request.cls.module.Device(sim)
    yield device
    device.close()


@pytest.fixture
def streams(device: Any, sim: Any) -> Iterator[Streams]:
    streams = Streams(Runtime(sim))
    yield streams
    streams.close()


both_orders = pytest.mark.parametrize("first", ["one", "two"])


def launch(device: Any, call: Any, workspace: int | None = None) -> Callable[[int], None]:
    """Launches a call on the stream that is given then, with a workspace of its own or this one."""

    def on(stream: int) -> None:
        attributes = (call.attributes,) if device.operator == QKV else ()
        status, size, executor = device.phase1(call.handles, *attributes)
        assert status == 0, device.message()
        function = getattr(device.sim, device.operator)
        assert function(workspace or device.alloc(size), size, executor, stream) == 0

    return on


def share(call: Any, other: Any, names: Sequence[str] = calls.CACHES) -> None:
    """Has the call use the other's tensors of these names."""
    for name in names:
        array = call.arrays[name]
        strides = [stride // array.itemsize for stride in array.strides]
        call.view_at(name, other.addresses[name], array.size, strides)


def shared_caches(device: Any, one: Sequence[int], two: Sequence[int]) -> tuple[Any, Any]:
    a, b = (calls.Call(device, tokens=len(slots), slots=slots) for slots in (one, two))
    share(b, a)
    return a, b


def races(reports: Any) -> list[tuple[str, str, str]]:
    """Check and kind, and what each of the two calls did."""
    pattern = re.compile(r"(\w+), (read|written) by (\w+), call")
    return [
        (f"{r['check']}:{r['kind']}", *(" ".join(found) for found in pattern.findall(r["text"])))
        for r in reports.take()
    ]


def both_write(*names: str, function: str = SCATTER) -> list[tuple[str, str, str]]:
    return [("race:unordered_writes", *[f"{name} written {function}"] * 2) for name in names]


class Alone:
    """Each check without the others: what kernels touch is noted for either."""

    module: Any

    def call(self, device: Any) -> Any:
        raise NotImplementedError

    def test_sync(self, device: Any, streams: Streams, reports: Any, sim: Any) -> None:
        sim.aclsim_set_checks(b"sync")
        call = self.call(device)
        name = self.module.CACHES[0]
        launch(device, call)(streams.one)
        streams.let_pass(streams.one)
        device.read(call.addresses[name], call.arrays[name])
        (found,) = reports.take()
        assert (found["check"], found["kind"]) == ("sync", "read_before_synchronise")
        assert f"{name}, written by {device.operator}" in found["text"]

    def test_race(self, device: Any, streams: Streams, reports: Any, sim: Any) -> None:
        sim.aclsim_set_checks(b"race")
        a, b = self.call(device), self.call(device)
        share(b, a, self.module.CACHES)
        streams.run("one", launch(device, a), launch(device, b))
        assert sorted(races(reports)) == sorted(both_write(*self.module.CACHES, function=device.operator))


class TestScatter(Alone):
    module = calls

    def call(self, device: Any) -> Any:
        return calls.Call(device)

    @both_orders
    def test_one_slot(self, device: Any, streams: Streams, reports: Any, first: str) -> None:
        a, b = shared_caches(device, (0, 5, 7), (3, 5))
        streams.run(first, launch(device, a), launch(device, b))
        found = reports.take()
        one, two = streams.ids
        numbers = (1, 1) if first == "one" else (1, 2)
        assert [(r["check"], r["kind"], r["function"], r["stream"]) for r in found] == [
            ("race", "unordered_writes", SCATTER, two)
        ] * 3
        # Slot 5 is row 1 of block 1, and each head has 4 rows of 8 bytes.
        row = a.addresses["keyCacheRef"] + (1 * 2 * 4 + 1) * 8
        assert found[0]["text"].startswith(
            f"keyCacheRef, written by {SCATTER}, call {numbers[0]} of stream {two} of device 0, and keyCacheRef, "
            f"written by {SCATTER}, call {numbers[1]} of stream {one} of device 0, share 16 bytes in 2 ranges, first "
            f"the 8 at {row:#x}, byte 72 of the allocation of 128 bytes at {a.addresses['keyCacheRef']:#x}"
        )
        assert [r["text"].split(",")[0] for r in found] == list(calls.CACHES)

    @both_orders
    def test_other_slots_of_one_cache_are_none(self, device: Any, streams: Streams, first: str) -> None:
        a, b = shared_caches(device, (0, 5, 7), (1, 2, 3, 4, 6))
        streams.run(first, launch(device, a), launch(device, b))

    @both_orders
    def test_skipped_slots_are_none(self, device: Any, streams: Streams, first: str) -> None:
        a, b = shared_caches(device, (0, 5, -1), (-1, 8, 3))
        streams.run(first, launch(device, a), launch(device, b))

    def test_an_event_orders(self, device: Any, streams: Streams) -> None:
        a, b = shared_caches(device, (0, 5, 7), (3, 5))
        event = streams.event()
        launch(device, a)(streams.one)
        streams.rt.ok("aclrtRecordEvent", event, streams.one)
        streams.rt.ok("aclrtStreamWaitEvent", streams.two, event)
        launch(device, b)(streams.two)

    def test_shared_inputs_are_none(self, device: Any, streams: Streams) -> None:
        a, b = calls.Call(device), calls.Call(device)
        share(b, a, ("key", "value", "slotMapping", "keyScale"))
        streams.run("one", launch(device, a), launch(device, b))

    @both_orders
    def test_inputs_that_are_written_meanwhile(self, device: Any, streams: Streams, reports: Any, first: str) -> None:
        call = calls.Call(device, slots=(0, 5, -1))
        streams.run(
            first,
            launch(device, call),
            lambda s: streams.fill(s, at=call.addresses["slotMapping"], size=call.slots.nbytes),
        )
        assert races(reports) == [
            ("race:unordered_read_and_write", "devPtr written aclrtMemsetAsync", f"slotMapping read {SCATTER}")
        ]

    @both_orders
    def test_the_row_of_a_skipped_token_is_not_read(self, device: Any, streams: Streams, first: str) -> None:
        call = calls.Call(device, slots=(0, 5, -1))
        last = call.addresses["key"] + 2 * 16
        streams.run(first, launch(device, call), lambda s: streams.fill(s, at=last, size=16))

    @both_orders
    def test_layers_of_one_allocation_are_none(self, device: Any, streams: Streams, first: str) -> None:
        """K caches of two layers, interleaved head by head in one buffer."""
        layers = [calls.Call(device, slots=(0, 5, 7)) for _ in range(2)]
        base = np.zeros((2, 2, 2, 4, 8), np.uint8)  # [block, head, layer, row, byte]
        address = device.upload(base)
        for layer, call in enumerate(layers):
            call.view_at("keyCacheRef", address, base.size, (128, 64, 8, 1), offset=layer * 32)
        streams.run(first, launch(device, layers[0]), launch(device, layers[1]))

    @both_orders
    def test_layers_that_overlap(self, device: Any, streams: Streams, reports: Any, first: str) -> None:
        """Row 1 of the one is row 0 of the other."""
        layers = [calls.Call(device, slots=(0, 1, 7)) for _ in range(2)]
        base = np.zeros(512, np.uint8)
        address = device.upload(base)
        for layer, call in enumerate(layers):
            call.view_at("keyCacheRef", address, base.size, (128, 64, 8, 1), offset=layer * 8)
        streams.run(first, launch(device, layers[0]), launch(device, layers[1]))
        (found,) = reports.take()
        assert found["kind"] == "unordered_writes"
        assert f"share 16 bytes in 2 ranges, first the 8 at {address + 8:#x}" in found["text"]

    @both_orders
    @pytest.mark.parametrize("path", ["dense", "views", "copies"])
    def test_one_workspace(self, device: Any, streams: Streams, reports: Any, first: str, path: str) -> None:
        """It is one stream's at a time, whether the call copies views into it or not."""
        a, b = calls.Call(device), calls.Call(device)
        for call in (a, b):
            if path != "dense":
                step = 2 if path == "copies" else 1
                call.view("key", call.key.repeat(2), (32, 16, step))
        workspace = device.alloc(calls.WORKSPACE + 512)
        streams.run(first, launch(device, a, workspace), launch(device, b, workspace))
        assert races(reports) == both_write("workspace")

    def test_one_workspace_of_one_stream_is_none(self, device: Any, streams: Streams) -> None:
        a, b = calls.Call(device), calls.Call(device)
        workspace = device.alloc(calls.WORKSPACE)
        for call in (a, b):
            launch(device, call, workspace)(streams.one)

    def test_a_workspace_that_is_filled_meanwhile(self, device: Any, streams: Streams, reports: Any) -> None:
        workspace = device.alloc(calls.WORKSPACE)
        fill = streams.fill
        streams.run("one", launch(device, calls.Call(device), workspace), lambda s: fill(s, at=workspace, size=16))
        assert races(reports) == [
            ("race:unordered_writes", "devPtr written aclrtMemsetAsync", f"workspace written {SCATTER}")
        ]

    def test_reading_the_caches_before_a_synchronise(self, device: Any, streams: Streams, reports: Any) -> None:
        call = calls.Call(device)
        launch(device, call)(streams.one)
        streams.let_pass(streams.one)
        device.read(call.addresses["valueCacheRef"], call.value_cache)
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("sync", "read_before_synchronise", "aclrtMemcpy")
        assert f"valueCacheRef, written by {SCATTER}, call 1 of stream" in found["text"]
        assert "share 48 bytes in 6 ranges" in found["text"]

    @pytest.mark.parametrize("name", ["keyCacheRef", "keyScale"])
    def test_freeing_a_tensor_or_the_workspace_in_flight(
        self, device: Any, streams: Streams, reports: Any, name: str
    ) -> None:
        call = calls.Call(device)
        launch(device, call)(streams.one)
        streams.let_pass(streams.one)
        for address in (call.addresses[name], device.memory[-1]):
            device.memory.remove(address)
            assert device.sim.aclrtFree(address) == 0
        tensor, workspace = reports.take()
        assert (tensor["kind"], workspace["kind"]) == ("freed_in_flight", "freed_in_flight")
        assert f"is {name} of {SCATTER}, call 1" in tensor["text"]
        assert f"is workspace of {SCATTER}, call 1" in workspace["text"]

    def test_a_slot_that_two_tokens_share(self, device: Any, streams: Streams, reports: Any) -> None:
        device.stream, own = streams.one, device.stream
        assert calls.Call(device, slots=(5, 0, 5)).run() == 0
        device.stream = own
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("race", "duplicate_slot", SCATTER)
        assert (found["device"], found["stream"]) == (0, streams.ids[0])
        assert found["text"] == (
            "tokens 0 and 2 share slot 5; which one it keeps is undefined: give each token a slot of its own"
        )

    def test_skipped_tokens_share_none(self, device: Any) -> None:
        assert calls.Call(device, slots=(-1, 0, -1)).run() == 0


class TestQkv(Alone):
    module = qkv_calls

    def call(self, device: Any) -> Any:
        return qkv_calls.Call(device).prepare()

    def shared(self, device: Any, one: Sequence[int], two: Sequence[int]) -> tuple[Any, Any]:
        a, b = (qkv_calls.Call(device, tokens=len(slots), heads=(1, 1, 1), slots=slots) for slots in (one, two))
        for call in (a, b):
            call.prepare()
        share(b, a, qkv_calls.CACHES)
        return a, b

    @both_orders
    def test_one_slot(self, device: Any, streams: Streams, reports: Any, first: str) -> None:
        a, b = self.shared(device, (0, 2), (3, 2))
        streams.run(first, launch(device, a), launch(device, b))
        assert sorted(races(reports)) == sorted(both_write(*qkv_calls.CACHES, function=QKV))

    @both_orders
    def test_other_slots_are_none(self, device: Any, streams: Streams, first: str) -> None:
        a, b = self.shared(device, (0, 2), (3, 1))
        streams.run(first, launch(device, a), launch(device, b))

    @both_orders
    def test_one_workspace(self, device: Any, streams: Streams, reports: Any, first: str) -> None:
        a, b = (qkv_calls.Call(device).prepare() for _ in range(2))
        workspace = device.alloc(qkv_calls.WORKSPACE)
        streams.run(first, launch(device, a, workspace), launch(device, b, workspace))
        assert races(reports) == both_write("workspace", function=QKV)

    def test_outputs_are_written(self, device: Any, streams: Streams, reports: Any) -> None:
        a, _ = self.shared(device, (0, 2), (3, 1))
        launch(device, a)(streams.one)
        streams.let_pass(streams.one)
        device.read(a.addresses["qOut"], a.arrays["qOut"])
        (found,) = reports.take()
        assert found["kind"] == "read_before_synchronise"
        assert f"qOut, written by {QKV}" in found["text"]

    def test_a_slot_that_two_tokens_share(self, device: Any, reports: Any) -> None:
        assert qkv_calls.Call(device, tokens=2, heads=(1, 1, 1), slots=(1, 1)).run() == 0
        assert reports.kinds() == ["race:duplicate_slot"]
