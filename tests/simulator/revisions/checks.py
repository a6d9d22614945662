# SPDX-License-Identifier: Apache-2.0
"""The checks on this revision's phase 1 and kernels: what they say of each scene, and that good calls give them
nothing to say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import qkv_calls
import revision_calls as calls
import test_checks_race_kernels as races
from runtime_calls import Runtime
from streams import Streams

QKV = "aclnnQkvRmsNormRopeCacheWithKScale"
PHASE_1 = f"{QKV}GetWorkspaceSize"
SCENES = ["rope", "mrope", *(["mx"] if calls.REVISION == "c" else [])]
WITH_POSITIONS = SCENES[1:]
INPUTS = [(s, n) for s in SCENES for n in calls.NAMES if n not in (*calls.ABSENT[s], *qkv_calls.RESULTS)]
TABLE = "pass a table with a row for each position, or other positions"
TOKENS = {"qkv": "token 0 (slot 0): ", "cosSin": "token 0 (position 0): "}
"""Inputs of which a row is read when its token's turn comes."""

every_scene = pytest.mark.parametrize("scene", SCENES)


@pytest.fixture
def streams(device: Any, sim: Any) -> Iterator[Streams]:
    streams = Streams(Runtime(sim))
    yield streams
    streams.close()


def dense(array: np.ndarray) -> list[int]:
    return [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]


def layers(call: Any, count: int = 3) -> dict[str, tuple[int, np.ndarray]]:
    """Makes the caches the middle layer of several: address and contents of all layers, by name."""
    made = {}
    for name in qkv_calls.CACHES:
        array = call.arrays[name]
        base = np.full((count, *array.shape), 0x5E, array.dtype)
        made[name] = (call.view(name, base, dense(array), array.size), base)
    return made


@every_scene
def test_good_calls_give_none(device: Any, scene: str) -> None:
    call = calls.Call(device, scene, tokens=5, k_heads=2, slots=(7, 0, 3, 6, 1))
    assert call.run() == 0
    strided = calls.Call(device, scene, slots=(7, 0, 3)).prepare()
    layers(strided)
    assert strided.run() == 0


@every_scene
class TestSlots:
    @pytest.mark.parametrize(("slot", "row"), [(-1, 7), (8, 16), (10, 18)])
    def test_in_another_layer(self, device: Any, reports: Any, scene: str, slot: int, row: int) -> None:
        """Two blocks of four rows; the good token is written and the bad one is not."""
        call = calls.Call(device, scene, tokens=2, slots=(3, slot)).prepare()
        places = layers(call)
        assert call.run() == 0
        bad, *strays = reports.take()
        assert (bad["check"], bad["kind"], bad["function"]) == ("api", "slot_out_of_range", QKV)
        assert bad["text"] == (
            f"slot {slot} of token 1 is outside the 8 slots of the caches; the kernel skips none: pass slots from 0 to "
            "7"
        )
        assert [(r["check"], r["kind"], r["function"]) for r in strays] == [("mem", "out_of_bounds_write", QKV)] * 3
        for report, name in zip(strays, ("kCacheRef", "kScaleCacheRef", "vCacheRef"), strict=True):
            base, array = places[name]
            nbytes = array[0, 0, 0, 0].nbytes
            assert report["text"].startswith(
                f"token 1 (slot {slot}): a write of {nbytes} bytes at {base + row * nbytes:#x} is not all inside "
                f"tensor {name}: "
            )
            assert f"and byte {row * nbytes} of the {array.nbytes} bytes at {base:#x}" in report["text"]
            rows = device.read(base, array).reshape(24, -1)
            written = (rows.view(np.uint8) != array.reshape(24, -1).view(np.uint8)).any(axis=1)
            assert np.flatnonzero(written).tolist() == [8 + 3]

    @pytest.mark.parametrize("slot", [-1, 2**31 - 1])
    def test_where_there_is_no_memory(self, device: Any, reports: Any, scene: str, slot: int) -> None:
        call = calls.Call(device, scene, tokens=1, slots=(slot,)).prepare()
        for name in qkv_calls.CACHES:
            row = call.arrays[name].shape[-1]
            call.view_at(name, call.addresses[name], 1, (2**32, 4 * row, row, 1))
        assert call.run() == 507015
        assert reports.kinds() == ["api:slot_out_of_range", "mem:out_of_bounds_write"]

    def test_of_two_tokens(self, device: Any, reports: Any, scene: str) -> None:
        assert calls.Call(device, scene, slots=(5, 0, 5)).run() == 0
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("race", "duplicate_slot", QKV)
        assert found["text"] == (
            "tokens 0 and 2 share slot 5; which one it keeps is undefined: give each token a slot of its own"
        )


@pytest.mark.parametrize(
    ("starts", "lengths", "kind"),
    [
        ((0, 4), (4,), "batch_out_of_range"),
        ((2, 1), (3,), "batch_out_of_range"),
        ((-1, 3), (4,), "batch_out_of_range"),
        ((0, 3), (2,), "length_below_tokens"),
        ((0, 3), (3,), None),
        ((0, 2), (9,), None),
    ],
)
def test_batches(device: Any, reports: Any, starts: Sequence[int], lengths: Sequence[int], kind: str | None) -> None:
    call = calls.Call(device, "rope")
    call.arrays["queryStartLoc"][:] = starts
    call.arrays["seqLens"][:] = lengths
    assert call.run() == 0
    assert reports.kinds() == ([] if kind is None else [f"api:{kind}"])


@every_scene
@pytest.mark.parametrize("gap", [0, 64])
def test_strides_of_outputs(device: Any, reports: Any, scene: str, gap: int) -> None:
    call = calls.Call(device, scene).prepare()
    array = call.arrays["qOut"]
    tokens, heads, channels = array.shape
    strides = (heads * (channels + gap), channels + gap, 1)
    call.view("qOut", np.zeros(tokens * strides[0], array.dtype), strides)
    assert call.run() == 0
    found = [(r["check"], r["kind"], r["function"]) for r in reports.take()]
    assert found == ([("api", "strides_ignored", PHASE_1)] if gap else [])


@pytest.mark.parametrize("scene", WITH_POSITIONS)
class TestPositions:
    """The table has 16 rows."""

    @pytest.mark.parametrize("positions", [(-1, 0, 0), (0, 16, 0), (0, 0, 2**31 - 1)])
    def test_outside_memory(self, device: Any, reports: Any, scene: str, positions: Sequence[int]) -> None:
        call = calls.Call(device, scene, tokens=2)
        call.arrays["mropePositionOptional"][1] = positions
        assert call.run() == 507015
        axis, bad = next((axis, position) for axis, position in zip("THW", positions, strict=True) if position != 0)
        position, stray = reports.take()
        assert (position["check"], position["kind"]) == ("api", "position_out_of_range")
        where = f"position {bad} of token 1, axis {axis}, is outside the 16 rows of cosSin, 0 to 15: "
        assert position["text"] == where + TABLE
        assert (stray["check"], stray["kind"], stray["function"]) == ("mem", "out_of_bounds_read", QKV)
        assert stray["text"].startswith(f"token 1 (position {bad}): a read of 512 bytes at ")
        assert "not all inside tensor cosSin" in stray["text"]
        for name in ("kCacheRef", "vCacheRef"):
            assert (call.result(name) == call.arrays[name]).all(), "Q comes first, and ends the kernel"

    def test_of_each_axis(self, device: Any, reports: Any, scene: str) -> None:
        """In memory, but not in the table: what the device reads there is read here. Q first, then K."""
        call = calls.Call(device, scene, tokens=1)
        call.arrays["mropePositionOptional"][:] = 16, 3, 17
        call.prepare()
        call.view("cosSin", np.ones((18, 128), np.float32), (128, 1))
        assert call.run() == 0
        position, *strays = reports.take()
        assert position["text"] == "position 16 of token 0, axis T, is outside the 16 rows of cosSin, 0 to 15: " + TABLE
        assert [r["text"].partition(":")[0] for r in strays] == [f"token 0 (position {p})" for p in (16, 17, 16, 17)]
        assert {r["kind"] for r in strays} == {"out_of_bounds_read"}

    def test_that_no_lane_asks_for(self, device: Any, reports: Any, scene: str) -> None:
        """It is a mistake all the same; the row is not read."""
        call = calls.Call(device, scene, tokens=1)
        call.arrays["mropePositionOptional"][:] = 0, 16, 0
        call.section = (24, 0, 20)
        assert call.run() == 0
        assert reports.kinds() == ["api:position_out_of_range"]


class TestUnwritten:
    @pytest.mark.parametrize(("scene", "name"), INPUTS)
    def test_inputs(self, device: Any, sim: Any, reports: Any, scene: str, name: str) -> None:
        sim.aclsim_set_checks(b"init")
        call = calls.Call(device, scene).prepare()
        array = call.stored(name)
        call.view_at(name, device.alloc(array.nbytes), array.size, dense(array))
        call.run()
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("init", "uninitialised_read", QKV)
        element = [1] if name == "queryStartLoc" else [0] * array.ndim
        assert found["text"].startswith(
            f"{TOKENS.get(name, '')}element {element} of tensor {name} was never written; it is byte "
        )

    @every_scene
    def test_results_and_caches_are_written_to(self, device: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        for name in (n for n in qkv_calls.RESULTS if n in call.arrays):
            array = call.stored(name)
            call.addresses[name] = device.alloc(array.nbytes)
            call.view_at(name, call.addresses[name], array.size, dense(array))
        assert call.run() == 0
        want = {"rope": 0x7E, "mrope": 0x3F80, "mx": 0x78}[scene]
        assert (call.result("qOut") == want).all(), "every byte of it, or reading it would be reported"

    def test_a_copied_input(self, device: Any, sim: Any, reports: Any) -> None:
        call = calls.Call(device, "mrope").prepare()
        call.view_at("mropePositionOptional", device.alloc(72), 18, (6, 2))
        call.run()
        assert "element [0, 0] of tensor mropePositionOptional (its copy in the workspace) was never written" in (
            next(r["text"] for r in reports.take() if r["check"] == "init")
        )


@every_scene
class TestRaces:
    def shared(self, device: Any, scene: str, one: Sequence[int], two: Sequence[int]) -> tuple[Any, Any]:
        a, b = (calls.Call(device, scene, tokens=2, slots=slots).prepare() for slots in (one, two))
        races.share(b, a, qkv_calls.CACHES)
        return a, b

    @races.both_orders
    def test_one_slot(self, device: Any, streams: Streams, reports: Any, scene: str, first: str) -> None:
        a, b = self.shared(device, scene, (0, 2), (3, 2))
        streams.run(first, races.launch(device, a), races.launch(device, b))
        assert sorted(races.races(reports)) == sorted(races.both_write(*qkv_calls.CACHES, function=QKV))

    @races.both_orders
    def test_other_slots_are_none(self, device: Any, streams: Streams, scene: str, first: str) -> None:
        a, b = self.shared(device, scene, (0, 2), (3, 1))
        streams.run(first, races.launch(device, a), races.launch(device, b))

    @races.both_orders
    def test_inputs_that_are_written_meanwhile(
        self, device: Any, streams: Streams, reports: Any, scene: str, first: str
    ) -> None:
        name = "seqLens" if scene == "rope" else "mropePositionOptional"
        call = calls.Call(device, scene).prepare()
        streams.run(
            first,
            races.launch(device, call),
            lambda stream: streams.copy(stream, call.addresses[name], streams.memory, call.arrays[name].nbytes),
        )
        found = [r for r in races.races(reports) if r[0].startswith("race")]
        assert found == [("race:unordered_read_and_write", "dst written aclrtMemcpyAsync", f"{name} read {QKV}")]

    def test_results_before_a_synchronise(self, device: Any, streams: Streams, reports: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        races.launch(device, call)(streams.one)
        streams.let_pass(streams.one)
        device.read(call.addresses["qOut"], call.arrays["qOut"])
        (found,) = reports.take()
        assert (found["check"], found["kind"]) == ("sync", "read_before_synchronise")
        assert f"qOut, written by {QKV}" in found["text"]

    @races.both_orders
    def test_one_workspace(self, device: Any, streams: Streams, reports: Any, scene: str, first: str) -> None:
        a, b = (calls.Call(device, scene).prepare() for _ in range(2))
        workspace = device.alloc(device.workspace_size(a.handles, a.attributes))
        streams.run(first, races.launch(device, a, workspace), races.launch(device, b, workspace))
        assert races.races(reports) == races.both_write("workspace", function=QKV)


@every_scene
class TestClashes:
    def at(self, call: Any, name: str, other: str) -> None:
        """Lays a tensor on another."""
        array = call.stored(name)
        call.view_at(name, call.addresses[other], array.size, dense(array))

    @pytest.mark.parametrize(
        ("name", "other"), [("vCacheRef", "kCacheRef"), ("qOut", "qkv"), ("kScaleCacheRef", "qOut")]
    )
    def test_tensors(self, device: Any, reports: Any, scene: str, name: str, other: str) -> None:
        call = calls.Call(device, scene).prepare()
        self.at(call, name, other)
        assert call.run() == 0
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("race", "overlapping_tensors", QKV)
        assert f"tensor {name}, which it writes" in found["text"]
        assert f"tensor {other}, which it " in found["text"]

    def test_q_in_its_own_place(self, device: Any, reports: Any, scene: str) -> None:
        """BF16 rows that stay where they are, as those of one token do, are no fault; narrower ones move."""
        call = calls.Call(device, scene, tokens=1).prepare()
        self.at(call, "qOut", "qkv")
        assert call.run() == 0
        assert reports.kinds() == ([] if scene == "mrope" else ["race:overlapping_tensors"])

    def test_a_workspace_on_a_cache(self, device: Any, reports: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        workspace = device.alloc(device.workspace_size(call.handles, call.attributes))
        device.write(workspace, call.arrays["vCacheRef"])
        call.addresses["vCacheRef"] = workspace
        call.view_at("vCacheRef", workspace, call.arrays["vCacheRef"].size, dense(call.arrays["vCacheRef"]))
        status, size, executor = call.phase1()
        assert (status, device.phase2(executor, size, workspace)) == (0, 0)
        assert device.synchronize() == 0
        (found,) = reports.take()
        assert (found["check"], found["kind"]) == ("api", "workspace_overlaps_tensor")
        assert "overlaps tensor vCacheRef from" in found["text"]
        rows = call.result("vCacheRef").reshape(8, 128)
        assert (rows[3:] == 0x55).all(), "the caller's rows stay"
        assert (rows[:3] != 0x55).any(axis=1).all()

    def test_rows(self, device: Any, reports: Any, scene: str) -> None:
        """Revision C refuses caches that overlap."""
        call = calls.Call(device, scene, tokens=2, slots=(0, 1), block_size=2).prepare()
        for name in ("kCacheRef", "vCacheRef"):
            call.view_at(name, call.addresses[name], call.arrays[name].size, (128, 128, 128, 1))
        call.arrays["slotMapping"][:] = 1, 2
        device.write(call.addresses["slotMapping"], call.arrays["slotMapping"])
        if calls.REVISION == "c":
            assert call.phase1()[0] == 161002
            return
        assert call.run() == 0
        found = reports.take()
        assert [r["kind"] for r in found] == ["overlapping_rows"] * 2
        assert "head 0 of token 0 (slot 1) and head 0 of token 1 (slot 2)" in found[0]["text"]


@every_scene
class TestCalls:
    def test_an_executor_used_twice(self, device: Any, reports: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        status, size, executor = call.phase1()
        workspace = device.alloc(size)
        assert (status, device.phase2(executor, size, workspace)) == (0, 0)
        assert device.phase2(executor, size, workspace) == 561000
        (found,) = reports.take()
        assert (found["check"], found["kind"], found["function"]) == ("api", "consumed_executor", QKV)
        assert f"an executor, number N, made by {PHASE_1}" in re.sub(r"number \d+", "number N", found["text"])

    def test_a_tensor_that_is_gone(self, device: Any, reports: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        device.destroy(call.tensors["qkv"])
        assert call.phase1()[0] == 561103
        (found,) = reports.take()
        assert (found["kind"], found["function"]) == ("destroyed_handle", PHASE_1)
        assert found["text"].startswith(f"tensor argument 0 is {call.tensors['qkv']:#x}, a tensor, ")

    def test_lists_that_are_gone(self, device: Any, reports: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        parts = {"head_nums": "headNums"} | ({} if scene == "rope" else {"section": "mropeSectionOptional"})
        for field, name in parts.items():
            gone = device.sim.aclCreateIntArray(None, 0)
            assert device.sim.aclDestroyIntArray(gone) == 0
            good, call.attributes = call.attributes, call.attributes._replace(**{field: gone})
            assert call.phase1()[0] == 561103
            call.attributes = good
            (found,) = reports.take()
            assert (found["kind"], found["function"]) == ("destroyed_handle", PHASE_1)
            assert found["text"].startswith(f"{name} is {gone:#x}, an int array, ")

    def test_a_workspace_that_is_too_small(self, device: Any, reports: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        status, size, executor = call.phase1()
        assert (status, device.phase2(executor, size - 1, device.alloc(size))) == (0, 0)
        assert device.synchronize() == 0
        assert reports.kinds() == ["api:workspace_too_small"]

    def test_its_functions_are_counted_and_fail_as_planned(self, device: Any, sim: Any, scene: str) -> None:
        call = calls.Call(device, scene).prepare()
        try:
            assert sim.aclsim_set_faults(f"{PHASE_1}#2=561103;kernel:{QKV}#1=507015".encode()) == 0
            assert call.run() == 507015
            assert call.phase1()[0] == 561103
            assert sim.aclsim_fault_count() == 2
        finally:
            assert sim.aclsim_set_faults(None) == 0
        again = calls.Call(device, scene)
        assert again.run() == 0


@every_scene
def test_checks_that_are_off_change_no_result(device: Any, sim: Any, scene: str) -> None:
    got = []
    for checks in (b"all", b"none"):
        sim.aclsim_set_checks(checks)
        call = calls.Call(device, scene, tokens=300, k_heads=2, blocks=80, slots=[7 * t % 320 for t in range(300)])
        random = np.random.default_rng(5)
        call.arrays["qkv"][:] = random.standard_normal((300, 20, 128)).astype(np.float32).view(np.uint32) >> 16
        call.arrays["cosSin"] = random.uniform(-1, 1, (300, 128)).astype(np.float32)
        assert call.run() == 0
        got.append(call.results())
    qkv_calls.same(*got)
    assert len(np.unique(got[0]["kCacheRef"])) > 100
