# SPDX-License-Identifier: Apache-2.0
"""The check of initialisation: device memory that is read but was never written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import qkv_calls
import scatter_calls
from runtime_calls import D2D, Runtime

import aclnn_kvcache as kv

QKV, SCATTER = "aclnnQkvRmsNormRopeCacheWithKScale", "aclnnScatterPaKvCacheWithKScale"
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    yield runtime
    runtime.ok("aclrtResetDevice", 0)


@pytest.fixture
def qkv(sim: Any) -> Iterator[qkv_calls.Device]:
    device = qkv_calls.Device(sim)
    yield device
    device.close()


@pytest.fixture
def scatter(sim: Any) -> Iterator[scatter_calls.Device]:
    device = scatter_calls.Device(sim)
    yield device
    device.close()


def only(reports: Any, function: str) -> str:
    (report,) = reports.take()
    assert (report["check"], report["kind"], report["function"]) == ("init", "uninitialised_read", function)
    return re.sub(r"number \d+", "number N", report["text"])


class TestCopies:
    def test_reading_back_what_nobody_wrote(self, rt: Runtime, reports: Any) -> None:
        address = rt.malloc(64)
        assert rt.read(address, 64) == b"\xa5" * 64
        assert only(reports, "aclrtMemcpy") == (
            f"nothing was ever written to the 64 bytes that are read at {address:#x}, which is byte 0 of the 64 bytes "
            f"at {address:#x} (number N, made by aclrtMalloc); queue what writes them first"
        )
        rt.read(address, 32)
        assert reports.take() == [], "once for each allocation and function"
        rt.ok("aclrtFree", address)

    def test_gaps_among_what_was_written_are_usual(self, rt: Runtime) -> None:
        address = rt.malloc(64)
        rt.write(address + 40, b"x")
        assert rt.read(address, 64) == b"\xa5" * 40 + b"x" + b"\xa5" * 23
        rt.ok("aclrtFree", address)

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("aclrtMemset", (0, 64)),
            ("aclrtMemsetD32", (0, 16)),
            ("aclrtMemsetAsync", (0, 64, None)),
        ],
    )
    def test_fills_write(self, rt: Runtime, name: str, arguments: tuple[Any, ...]) -> None:
        address = rt.malloc(64)
        rt.ok(name, address, 64, *arguments)
        rt.ok("aclrtSynchronizeStream", None)
        assert rt.read(address, 64) == b"\0" * 64
        rt.ok("aclrtFree", address)

    def test_a_copy_is_as_written_as_its_source(self, rt: Runtime, reports: Any) -> None:
        source, target = rt.malloc(64), rt.malloc(64)
        rt.write(source, b"y" * 32)
        rt.ok("aclrtMemset", target, 64, 0, 64)
        rt.ok("aclrtMemcpy", target, 64, source, 64, D2D)
        assert reports.take() == [], "nobody has used it yet"
        assert rt.read(target, 64) == b"y" * 32 + b"\xa5" * 32
        assert rt.read(target + 32, 32) == b"\xa5" * 32
        assert f"byte 32 of the 64 bytes at {target:#x}" in only(reports, "aclrtMemcpy")
        for address in source, target:
            rt.ok("aclrtFree", address)

    def test_memory_comes_back_unwritten(self, rt: Runtime, reports: Any) -> None:
        rt.sim.aclsim_set_checks(b"init")  # without the memory check, which gives freed memory a rest
        first = rt.malloc(64)
        rt.write(first, b"z" * 64)
        rt.ok("aclrtFree", first)
        second = rt.malloc(64)
        assert second == first
        rt.read(second, 64)
        assert reports.kinds() == ["init:uninitialised_read"]
        rt.ok("aclrtFree", second)

    def test_what_was_made_while_nobody_looked_counts_as_written(self, rt: Runtime) -> None:
        rt.sim.aclsim_set_checks(b"none")
        before = rt.malloc(64)
        rt.sim.aclsim_set_checks(b"all")
        during = rt.malloc(64)
        rt.sim.aclsim_set_checks(b"none")
        rt.write(during, b"a" * 64)
        rt.sim.aclsim_set_checks(b"all")
        assert rt.read(before, 64) + rt.read(during, 64) == b"\xa5" * 64 + b"a" * 64
        for address in before, during:
            rt.ok("aclrtFree", address)


class TestScatter:
    def test_an_unwritten_row_of_a_source(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=3, heads=2, slots=(0, 5, 7))
        address = scatter.alloc(call.key.nbytes)
        scatter.write(address, call.key.reshape(-1)[:40])
        call.view_at("key", address, call.key.size, (16, 8, 1))
        assert call.run() == 0
        assert only(reports, SCATTER) == (
            f"token 2 (slot 7): element [2, 1, 0] of tensor key was never written; it is byte 40 of the 48 bytes at "
            f"{address:#x} (number N, made by aclrtMalloc): queue what writes it first"
        )
        assert call.run() == 0
        assert reports.take() == []

    @pytest.mark.parametrize("tokens", [1, 2, 3, 6])
    def test_the_lowest_token_is_named(self, scatter: Any, reports: Any, tokens: int) -> None:
        """Of each tensor, whatever the order in which the kernel comes to them; skipped ones are none."""
        call = scatter_calls.Call(scatter, tokens=tokens + 1, slots=(-1, *range(tokens)))
        for name in ("key", "value", "keyScale"):
            array = call.arrays[name]
            call.view_at(name, scatter.alloc(array.nbytes), array.size, [n // array.itemsize for n in array.strides])
        assert call.run() == 0
        starts = [re.split(r" was never", report["text"])[0] for report in reports.take()]
        assert starts == [
            "token 1 (slot 0): element [1, 0, 0] of tensor key",
            "token 1 (slot 0): element [1, 0, 0] of tensor value",
            "token 1 (slot 0): element [1, 0] of tensor keyScale",
        ]

    def test_rows_of_skipped_tokens_are_not_read(self, scatter: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=3, heads=2, slots=(0, 5, -1))
        address = scatter.alloc(call.key.nbytes)
        scatter.write(address, call.key.reshape(-1)[:32])
        call.view_at("key", address, call.key.size, (16, 8, 1))
        assert call.run() == 0

    def test_slots_that_nobody_wrote(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=3)
        call.view_at("slotMapping", scatter.alloc(12), 3, (1,))
        assert call.run() == 0
        assert only(reports, SCATTER).startswith("element [0] of tensor slotMapping was never written; it is byte 0 ")

    def test_a_copied_source_is_no_more_written_in_the_workspace(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=3, heads=2, slots=(0, 5, 7))
        call.view_at("key", scatter.alloc(2 * call.key.nbytes), 2 * call.key.size, (32, 16, 2))
        assert call.run() == 0
        assert "element [0, 0, 0] of tensor key (its copy in the workspace) was never written" in only(reports, SCATTER)

    @pytest.mark.parametrize("last", [1, 2])
    def test_caches_need_not_be_written(self, scatter: Any, last: int) -> None:
        """Also where the operator copies them whole, there and back, as it does for a stride of 2."""
        call = scatter_calls.Call(scatter, tokens=3, heads=2, slots=(0, 5, 7))
        elements = last * call.key_cache.size
        address = scatter.alloc(elements)
        call.view_at("keyCacheRef", address, elements, (64 * last, 32 * last, 8 * last, last))
        assert call.run() == 0
        got = scatter.read(address, np.zeros(elements, np.uint8))[::last].reshape(call.key_cache.shape)
        for token, slot in enumerate((0, 5, 7)):
            np.testing.assert_array_equal(got[slot // 4, :, slot % 4], call.key[token])

    def test_the_workspace_holds_something_else_in_every_call(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=1, slots=(0,))
        seen = []
        workspace = scatter.alloc(scatter_calls.WORKSPACE)
        for _ in range(3):
            status, size, executor = scatter.phase1(call.handles)
            assert status == 0
            assert scatter.phase2(executor, size, workspace) == 0
            assert scatter.synchronize() == 0
            seen.append(scatter.read(workspace, np.zeros(64, np.uint8)))
            scatter.write(workspace, np.zeros(64, np.uint8))
        assert [len(set(part.tolist())) for part in seen] == [1, 1, 1]
        assert len({int(part[0]) for part in seen} - {0}) == 3
        assert reports.kinds() == ["init:uninitialised_read"], "of this test, which reads it"


class TestFused:
    @pytest.mark.parametrize(
        ("name", "where"),
        [
            ("qkv", "token 0 (slot 0): element [0, 0, 0]"),
            ("qGamma", "element [0]"),
            ("cosSin", "token 0 (position 0): element [0, 0]"),
            ("slotMapping", "element [0]"),
            ("queryStartLoc", "element [1]"),
            ("seqLens", "element [0]"),
            ("rotationOptional", "element [0, 0]"),
            ("vScaleOptional", "element [0]"),
        ],
    )
    def test_inputs(self, qkv: Any, reports: Any, name: str, where: str, sim: Any) -> None:
        sim.aclsim_set_checks(b"init")
        call = qkv_calls.Call(qkv).prepare()
        array = call.stored(name)
        address = qkv.alloc(array.nbytes)
        strides = [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]
        call.view_at(name, address, array.size, strides)
        call.run()
        assert only(reports, QKV).startswith(f"{where} of tensor {name} was never written; it is byte ")

    def test_results_and_caches_are_written_to(self, qkv: Any) -> None:
        call = qkv_calls.Call(qkv).prepare()
        for name in qkv_calls.RESULTS:
            array = call.stored(name)
            strides = [int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim)]
            call.addresses[name] = qkv.alloc(array.nbytes)
            call.view_at(name, call.addresses[name], array.size, strides)
        assert call.run() == 0
        assert (call.result("qScale") != -2).all()
        assert call.result("kCacheRef").shape == (2, 1, 4, 128)


def test_through_a_session(session: kv.Session, reports: Any) -> None:
    empty = session.empty((3, 2, 16), E4M3)
    arguments: dict[str, Any] = {
        "key": empty,
        "value": session.array(np.zeros((3, 2, 16), E4M3)),
        "key_cache": session.empty((4, 2, 4, 16), E4M3),
        "value_cache": session.empty((4, 2, 4, 16), E4M3),
        "slot_mapping": session.array(np.arange(3, dtype=np.int32)),
        "key_scale": session.array(np.zeros((3, 2), np.float32)),
        "key_scale_cache": session.empty((4, 2, 4, 1), np.float32),
    }
    session.scatter_pa_kv_cache_with_k_scale(**arguments)
    session.stream.synchronize()
    assert only(reports, SCATTER).startswith("token 0 (slot 0): element [0, 0, 0] of tensor key was never written")
    arguments["key"] = session.array(np.zeros((3, 2, 16), E4M3))
    session.scatter_pa_kv_cache_with_k_scale(**arguments)
    assert arguments["key_cache"].numpy().shape == (4, 2, 4, 16)
    assert reports.take() == []
