# SPDX-License-Identifier: Apache-2.0
"""The memory check: every access to the byte, what was freed, guards, and host code that touches device memory."""

from __future__ import annotations

import ctypes
import json
import re
import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qkv_calls
import scatter_calls
from runtime_calls import D2D, D2H, H2D, Runtime, run_alone

import aclnn_kvcache as kv

FREED = "which aclrtFree freed: free memory once, behind the last work on it"
QKV, SCATTER = "aclnnQkvRmsNormRopeCacheWithKScale", "aclnnScatterPaKvCacheWithKScale"


@pytest.fixture
def rt(initialised: Any, sim: Any) -> Iterator[Runtime]:
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    runtime.message()
    sim.aclsim_label(b"a test's")
    yield runtime
    sim.aclsim_label(None)
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


def only(reports: Any, kind: str, function: str) -> str:
    """The text of the one report of this check, with its numbers of things made left out."""
    (report,) = (report for report in reports.take() if report["check"] == "mem")
    assert (report["kind"], report["function"]) == (kind, function)
    return re.sub(r"number \d+", "number N", report["text"])


class TestCalls:
    """20 bytes asked for, 32 of them with CANN's padding."""

    MADE = '(number N, made by aclrtMalloc for "a test\'s")'

    def test_to_the_byte_is_good(self, rt: Runtime) -> None:
        address = rt.malloc(20)
        rt.write(address, bytes(range(20)))
        assert rt.read(address, 20) == bytes(range(20))
        rt.ok("aclrtMemset", address, 32, 1, 20)
        rt.ok("aclrtMemsetD32", address, 32, 1, 5)
        rt.ok("aclrtFree", address)

    def test_a_fill_of_the_padding(self, rt: Runtime, reports: Any) -> None:
        address = rt.malloc(20)
        rt.ok("aclrtMemset", address, 32, 7, 32)
        assert only(reports, "out_of_bounds_write", "aclrtMemset") == (
            f"devPtr is {address:#x} with 32 bytes to write, but {address + 20:#x} is 0 bytes behind the 20 bytes at "
            f"{address:#x} {self.MADE}; stay inside what was asked for"
        )
        assert rt.read(address, 20) == b"\7" * 20
        rt.ok("aclrtFree", address)
        assert reports.take() == [], "the padding is as it was"

    def test_copies_into_the_padding_and_out_of_it(self, rt: Runtime, reports: Any) -> None:
        address, other = rt.malloc(20), rt.malloc(64)
        rt.write(other, b"\1" * 64)
        rt.ok("aclrtMemcpy", address, 32, other, 21, D2D)
        assert only(reports, "out_of_bounds_write", "aclrtMemcpy").startswith(f"dst is {address:#x} with 21 bytes")
        assert rt.read(address, 20) == b"\1" * 20
        host = ctypes.create_string_buffer(b"\2" * 32, 32)
        rt.ok("aclrtMemcpy", host, 32, address + 16, 8, D2H)
        assert only(reports, "out_of_bounds_read", "aclrtMemcpy") == (
            f"src is {address + 16:#x} with 8 bytes to read, but {address + 20:#x} is 0 bytes behind the 20 bytes at "
            f"{address:#x} {self.MADE}; stay inside what was asked for"
        )
        assert host.raw == b"\1" * 4 + b"\2" * 28
        for memory in address, other:
            rt.ok("aclrtFree", memory)

    def test_rows_are_cut_where_the_memory_ends(self, rt: Runtime, reports: Any) -> None:
        address = rt.malloc(20)
        rt.write(address, b"\0" * 20)
        source = bytes(range(1, 25))
        rt.ok("aclrtMemcpy2d", address, 8, source, 8, 6, 3, H2D)
        assert "22 bytes to write" in only(reports, "out_of_bounds_write", "aclrtMemcpy2d")
        rows = bytes([*source[0:6], 0, 0, *source[8:14], 0, 0, *source[16:20]])
        assert rt.read(address, 20) == rows
        rt.ok("aclrtFree", address)

    def test_an_access_that_cann_refuses_is_reported_too(self, rt: Runtime, reports: Any) -> None:
        address = rt.malloc(20)
        assert rt.code("aclrtMemset", address - 1, 8, 0, 1) == 107000
        assert "is 1 byte in front of the 20 bytes" in only(reports, "out_of_bounds_write", "aclrtMemset")
        assert rt.code("aclrtMemset", address, 33, 0, 33) == 107000
        assert "is 0 bytes behind the 20 bytes" in only(reports, "out_of_bounds_write", "aclrtMemset")
        rt.ok("aclrtFree", address)

    def test_use_after_free(self, rt: Runtime, reports: Any) -> None:
        address = rt.malloc(20)
        rt.ok("aclrtFree", address)
        again = rt.malloc(20)
        assert again != address, "what was freed keeps its place for a while"
        assert rt.code("aclrtMemset", address + 3, 1, 0, 1) == 107000
        assert only(reports, "use_after_free", "aclrtMemset") == (
            f"devPtr is {address + 3:#x} with 1 byte to write, but {address + 3:#x} is byte 3 of the 20 bytes at "
            f"{address:#x} {self.MADE}, {FREED}"
        )
        rt.ok("aclrtFree", again)

    def test_frees_that_are_none(self, rt: Runtime, reports: Any) -> None:
        address, other = rt.malloc(64), rt.malloc(64)
        assert rt.code("aclrtFree", address + 32) == 107000
        assert only(reports, "inner_free", "aclrtFree").startswith(
            f"devPtr is {address + 32:#x}, which cannot be freed: it is byte 32 of the 64 bytes at {address:#x}"
        )
        rt.ok("aclrtFree", address)
        assert rt.code("aclrtFree", address) == 107000
        assert only(reports, "double_free", "aclrtFree").endswith(FREED)
        assert rt.code("aclrtFree", 4096) == 107000
        assert only(reports, "invalid_free", "aclrtFree").endswith(
            "it is no device memory; pass the address that the allocation gave"
        )
        rt.ok("aclrtFree", other)

    @pytest.mark.parametrize("call", ["aclrtMemsetAsync", "aclrtMemcpyAsync"])
    def test_freed_while_work_is_queued(self, rt: Runtime, reports: Any, held: Any, call: str) -> None:
        stream, address, other = rt.stream(), rt.malloc(64), rt.malloc(64)
        rt.ok("aclrtMemset", other, 64, 0, 64)
        arguments = (0, 64) if call == "aclrtMemsetAsync" else (other, 64, D2D)
        rt.ok(call, address, 64, *arguments, stream)
        rt.ok("aclrtFree", address)
        held.aclsim_release_streams()
        assert rt.code("aclrtSynchronizeStream", stream) == 507899
        assert only(reports, "freed_while_queued", call).endswith(f"{self.MADE}, {FREED}")
        assert "Simulator_Check_mem(freed_while_queued)" in (rt.message() or "")
        rt.ok("aclrtFree", other)
        rt.ok("aclrtDestroyStream", stream)

    def test_freed_memory_comes_back(self, rt: Runtime) -> None:
        """The addresses that wait are few, and the device's memory is not theirs."""
        seen = set()
        for _ in range(2000):
            address = rt.malloc(1 << 20)
            seen.add(address)
            rt.ok("aclrtFree", address)
        assert 256 < len(seen) < 1000
        for _ in range(8):
            rt.ok("aclrtFree", rt.malloc(8 << 30))


def core(sim: Any) -> Any:
    library = ctypes.CDLL(str(Path(next(iter(sim._library.paths))).parent / "libaclsim_core.so"))
    library.sim_memory_resolve.restype = ctypes.c_void_p
    library.sim_memory_resolve.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


@pytest.mark.parametrize(
    ("offset", "where"),
    [(-1, "1 byte in front of"), (-256, "256 bytes in front of"), (20, "0 bytes behind"), (31, "11 bytes behind")],
)
def test_guards_see_what_goes_its_own_way(rt: Runtime, reports: Any, offset: int, where: str) -> None:
    address = rt.malloc(20)
    place = core(rt.sim).sim_memory_resolve(address, 20)
    ctypes.memset(place, 9, 20)
    ctypes.memset(place + offset, 9, 1)
    rt.ok("aclrtFree", address)
    assert only(reports, "guard_overwritten", "aclrtFree") == (
        f"somebody wrote to {address + offset:#x}, {where} the 20 bytes at {address:#x} {TestCalls.MADE}; "
        "look for a size that is told too large"
    )


class TestFused:
    """A slot is never checked by the kernel: it writes where the arithmetic leads."""

    def test_a_slot_in_front_of_the_cache(self, qkv: Any, reports: Any) -> None:
        """Slot -1 of a layer is the last row of the layer before, which belongs to somebody else."""
        call = qkv_calls.Call(qkv, tokens=2, heads=(1, 1, 1), slots=(0, -1)).prepare()
        layers = np.full((3, 2, 1, 4, 128), 0xEE, np.uint8)
        scales = np.full((3, 2, 1, 4), 9, np.float32)
        places = {name: call.view(name, layers, (512, 512, 128, 1), 1024) for name in ("kCacheRef", "vCacheRef")}
        places["kScaleCacheRef"] = call.view("kScaleCacheRef", scales, (4, 4, 1, 1), 8)
        assert call.run() == 0
        slot, *strays = reports.take()
        assert (slot["check"], slot["kind"]) == ("api", "slot_out_of_range")
        assert [(r["check"], r["kind"], r["function"]) for r in strays] == [("mem", "out_of_bounds_write", QKV)] * 3
        for report, name, row in zip(strays, ("kCacheRef", "kScaleCacheRef", "vCacheRef"), (128, 4, 128), strict=True):
            base, size = places[name], (scales if row == 4 else layers).nbytes
            address = base + 7 * row
            assert re.sub(r"number \d+", "number N", report["text"]) == (
                f"token 1 (slot -1): a write of {row} bytes at {address:#x} is not all inside tensor {name}: "
                f"{address:#x} is {row} bytes in front of it, and byte {7 * row} of the {size} bytes at {base:#x} "
                "(number N, made by aclrtMalloc)"
            )
            assert report["device"] == 0
        kept = qkv.read(places["vCacheRef"], layers)
        assert (kept[1, 0, 0, 0] != 0xEE).all(), "the good token is written"
        assert (kept[0] == 0xEE).all(), "the stray one is not"

    def test_a_slot_behind_the_cache(self, qkv: Any, reports: Any) -> None:
        call = qkv_calls.Call(qkv, tokens=1, heads=(1, 1, 1), slots=(8,)).prepare()
        layers = np.full((3, 2, 1, 4, 128), 0xEE, np.uint8)
        scales = np.full((3, 2, 1, 4), 9, np.float32)
        base = call.view("kCacheRef", layers, (512, 512, 128, 1), 1024)
        call.view("vCacheRef", layers, (512, 512, 128, 1), 1024)
        call.view("kScaleCacheRef", scales, (4, 4, 1, 1), 8)
        assert call.run() == 0
        assert [r["text"].partition(" is ")[2].partition(" (")[0] for r in reports.take()[1:2]] == [
            f"not all inside tensor kCacheRef: {base + 2048:#x} is 0 bytes behind it, and byte 2048 of the 3072 bytes "
            f"at {base:#x}"
        ]
        assert (qkv.read(base, layers) == 0xEE).all()

    @pytest.mark.parametrize("slot", [-1, 8, 2**31 - 1])
    def test_where_there_is_no_memory_it_is_a_fault_as_ever(self, qkv: Any, reports: Any, slot: int) -> None:
        call = qkv_calls.Call(qkv, tokens=1, heads=(1, 1, 1), slots=(slot,)).prepare()
        for name in qkv_calls.CACHES:
            call.view_at(name, call.addresses[name], 1, (2**34, 512, 128, 1))
        assert call.run() == 507015
        assert reports.kinds() == ["api:slot_out_of_range", "mem:out_of_bounds_write"]
        message = qkv.message() or ""
        assert f"Simulator_Check_mem(out_of_bounds_write): {QKV}: token 0 (slot {slot})" in message
        assert "(EZ2001)" in message.splitlines()[0]

    def test_a_position_behind_the_table(self, qkv: Any, reports: Any) -> None:
        call = qkv_calls.Call(qkv, tokens=1, heads=(1, 1, 1), rows=4)
        call.arrays["seqLens"][:] = 6
        call.prepare()
        table = np.ones((8, 128), np.float32)
        call.view("cosSin", table, (128, 1))
        assert call.run() == 0
        position, stray, again = reports.take()
        assert "token 0 (position 5)" in again["text"], "for the rows of K after those of Q"
        assert (position["check"], position["kind"]) == ("api", "position_out_of_range")
        assert position["text"].startswith("position 5 of token 0 is outside the 4 rows of cosSin, 0 to 3: "), "no axis"
        assert (stray["kind"], stray["function"]) == ("out_of_bounds_read", QKV)
        assert stray["text"].startswith("token 0 (position 5): a read of 512 bytes at ")
        assert "inside tensor cosSin" in stray["text"]
        assert "is 512 bytes behind it, and byte 2560 of the 4096 bytes" in stray["text"]

    def test_a_good_call_gives_none(self, qkv: Any) -> None:
        assert qkv_calls.Call(qkv, slots=(0, 7, 3)).run() == 0


class TestScatter:
    def test_a_cache_that_is_smaller_than_it_says(self, scatter: Any, reports: Any) -> None:
        """The storage lies: the descriptor has eight rows, the memory two, and two more of padding."""
        call = scatter_calls.Call(scatter, tokens=2, heads=1, slots=(0, 2))
        small = scatter.upload(np.full(16, 0xEE, np.uint8))
        call.view_at("valueCacheRef", small, 64, (32, 32, 8, 1))
        assert call.run() == 0, "to the device the padding is memory like any other"
        text = only(reports, "out_of_bounds_write", SCATTER)
        assert text.startswith(
            f"token 1 (slot 2): a write of 8 bytes at {small + 16:#x} is not all inside the memory of "
        )
        assert f"is 16 bytes into the tensor, and 0 bytes behind the 16 bytes at {small:#x}" in text

    def test_a_stray_write_is_seen_from_the_memory_of_its_tensor(self, scatter: Any, reports: Any) -> None:
        """And not from that which happens to be closer."""
        call = scatter_calls.Call(scatter, tokens=1, heads=1, slots=(1,))
        small, neighbour = scatter.alloc(16), scatter.alloc(16)
        step = neighbour - 16 - small
        call.view_at("valueCacheRef", small, 4 * step, (4 * step, 4 * step, step, 1))
        assert call.run() == 507035
        assert f"is {step} bytes into the tensor, and {step - 16} bytes behind the 16 bytes at {small:#x}" in only(
            reports, "out_of_bounds_write", SCATTER
        )

    def test_the_padding_is_no_place_for_a_row(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=1, heads=1, slots=(2,), blocks=1, block_size=3)
        short = scatter.upload(np.full(20, 0xEE, np.uint8))
        call.view_at("valueCacheRef", short, 24, (24, 24, 8, 1))
        assert call.run() == 0, "to the device it is memory like any other"
        assert f"{short + 20:#x} is 20 bytes into the tensor, and 0 bytes behind the 20 bytes" in only(
            reports, "out_of_bounds_write", SCATTER
        )
        assert (scatter.read(short, np.zeros(20, np.uint8)) == 0xEE).all()

    def test_slots_that_wrap(self, scatter: Any, reports: Any) -> None:
        slots = (1, 2**32 + 5, 2**32 + 100, -1)
        call = scatter_calls.Call(scatter, tokens=4, slots=slots, slot_dtype=scatter_calls.INT64)
        assert call.run() == 0
        assert only(reports, "wrapped_slot", SCATTER) == (
            "token 1 has slot 4294967301, of which the kernel's 32 bits leave slot 5: that one is overwritten; pass "
            "-1 for a token to skip"
        )

    def test_a_workspace_that_is_too_small(self, scatter: Any, reports: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=1, slots=(0,))
        call.view("key", np.zeros(64, np.uint8), (32, 16, 2))
        status, size, executor = scatter.phase1(call.handles)
        assert status == 0
        workspace = scatter.alloc(64)
        assert scatter.phase2(executor, size, workspace) == 0
        assert scatter.synchronize() == 507035
        assert "inside the memory of tensor key (its copy in the workspace)" in only(
            reports, "out_of_bounds_write", SCATTER
        )

    @pytest.mark.usefixtures("held")
    def test_a_tensor_freed_while_its_call_is_queued(self, scatter: Any, reports: Any, sim: Any) -> None:
        call = scatter_calls.Call(scatter, tokens=1, slots=(0,))
        status, size, executor = scatter.phase1(call.handles)
        assert status == 0
        assert scatter.phase2(executor, size, scatter.alloc(size)) == 0
        scatter.memory.remove(call.addresses["key"])
        assert sim.aclrtFree(call.addresses["key"]) == 0
        sim.aclsim_release_streams()
        assert scatter.synchronize() == 507035
        key = call.addresses["key"]
        assert only(reports, "freed_while_queued", SCATTER) == (
            f"token 0 (slot 0): a read of 8 bytes at {key:#x} is one of tensor key, whose memory was freed: {key:#x} "
            f"is byte 0 of the 16 bytes at {key:#x} (number N, made by aclrtMalloc), {FREED}"
        )


def test_through_a_session(session: kv.Session, reports: Any) -> None:
    """A borrowed address with a shape that is not the memory's."""
    array = session.array(np.zeros(20, np.uint8))
    assert session.borrow_array(array.ptr, (20,), np.uint8).numpy().tolist() == [0] * 20
    assert reports.take() == []
    session.borrow_array(array.ptr, (32,), np.uint8).numpy()
    assert "with 32 bytes to read" in only(reports, "out_of_bounds_read", "aclrtMemcpy")


class TestHostTouch:
    TOUCH = """
        rt.ok("aclrtSetDevice", 0)
        sim.aclsim_label(b"the keys")
        address = rt.malloc(64)
        ctypes.string_at(address + 5, 1)
    """

    @pytest.mark.parametrize("is_python_watching", [False, True])
    def test_it_says_what_was_touched_and_ends_the_process(self, is_python_watching: bool) -> None:
        done = run_alone(self.TOUCH, PYTHONFAULTHANDLER="1" if is_python_watching else "")
        assert done.returncode == -signal.SIGSEGV
        first, *rest = done.stderr.splitlines()
        assert re.sub("0x[0-9a-f]+|number [0-9]+", "N", first) == (
            "aclsim: mem: host_touch: code of the host touches device memory at N, byte 5 of the 64 bytes at N "
            "(N, made by aclrtMalloc for 'the keys')"
        )
        assert ("Fatal Python error: Segmentation fault" in rest) == is_python_watching

    def test_a_handler_that_comes_later_is_first(self) -> None:
        done = run_alone("import faulthandler; faulthandler.enable()" + textwrap.dedent(self.TOUCH))
        assert done.returncode == -signal.SIGSEGV
        assert "Fatal Python error: Segmentation fault" in done.stderr

    def test_a_handler_that_came_before_aclinit_is_told_then(self) -> None:
        script = """
            import faulthandler
            if {before}:
                faulthandler.enable()
            print(sim.aclInit(None))
        """
        told = run_alone(script.format(before=True))
        assert told.stdout == "0\n"
        assert told.stderr.startswith(
            "aclsim: mem: the program has installed a handler of SIGSEGV over the simulator's"
        )
        for quiet in run_alone(script.format(before=False)), run_alone(script.format(before=True), ACLSIM_CHECK="api"):
            assert (quiet.stdout, quiet.stderr) == ("0\n", "")

    def test_into_the_file(self, tmp_path: Any) -> None:
        done = run_alone(self.TOUCH, ACLSIM_REPORT=str(tmp_path / "reports"))
        assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")
        report = json.loads((tmp_path / "reports").read_text().splitlines()[1])
        assert (report["check"], report["kind"]) == ("mem", "host_touch")

    @pytest.mark.parametrize("checks", ["none", "api,init"])
    def test_without_the_check_it_is_the_plain_fault(self, checks: str) -> None:
        done = run_alone(self.TOUCH, ACLSIM_CHECK=checks)
        assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")

    def test_other_faults_are_none_of_its_business(self) -> None:
        done = run_alone("ctypes.string_at(64, 1)")
        assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")

    def test_it_goes_when_the_check_does(self) -> None:
        done = run_alone("sim.aclsim_set_checks(b'none')" + textwrap.dedent(self.TOUCH))
        assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")
