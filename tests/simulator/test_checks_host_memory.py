# SPDX-License-Identifier: Apache-2.0
"""memcheck of memory of aclrtMallocHost, and of copies inside device memory."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_calls import D2D, D2H, H2D, Runtime


@pytest.fixture
def memory(rt: Runtime) -> Iterator[int]:
    address = rt.malloc(64)
    rt.write(address, bytes(range(64)))
    yield address
    rt.ok("aclrtFree", address)


def only(reports: Any, kind: str, function: str) -> str:
    (found,) = reports.take()
    assert (found["check"], found["kind"], found["function"]) == ("mem", kind, function)
    return re.sub(r"number \d+", "number N", found["text"])


@pytest.mark.parametrize(
    ("offset", "where"),
    [(-1, "1 byte in front of"), (-64, "64 bytes in front of"), (20, "0 bytes behind"), (83, "63 bytes behind")],
)
def test_a_write_beside_it_is_seen_at_its_end(rt: Runtime, reports: Any, offset: int, where: str) -> None:
    address = rt.malloc_host(20)
    assert address % 64 == 0
    ctypes.memset(address, 1, 20)
    ctypes.memset(address + offset, 9, 1)
    rt.ok("aclrtFreeHost", address)
    assert only(reports, "guard_overwritten", "aclrtFreeHost") == (
        f"somebody wrote to {address + offset:#x}, {where} the 20 bytes at {address:#x} (number N, made by "
        "aclrtMallocHost); look for a size that is told too large"
    )


def test_every_byte_of_it_may_be_written(rt: Runtime) -> None:
    address = rt.malloc_host(20)
    ctypes.memset(address, 9, 20)
    rt.ok("aclrtFreeHost", address)


@pytest.mark.parametrize(("parameter", "kind"), [("src", H2D), ("dst", D2H)])
def test_copies_from_and_to_what_was_freed(rt: Runtime, memory: int, reports: Any, parameter: str, kind: int) -> None:
    address = rt.malloc_host(20)
    rt.ok("aclrtFreeHost", address)
    ends = (memory, 4, address + 3) if kind == H2D else (address + 3, 4, memory)
    rt.ok("aclrtMemcpy", *ends, 4, kind)
    assert only(reports, "use_after_free", "aclrtMemcpy") == (
        f"{parameter} is {address + 3:#x}, byte 3 of the 20 bytes at {address:#x} (number N, made by aclrtMallocHost), "
        "which aclrtFreeHost freed: free memory once, behind the last work on it"
    )


def test_freed_twice(rt: Runtime, reports: Any) -> None:
    address = rt.malloc_host(20)
    rt.ok("aclrtFreeHost", address)
    assert rt.code("aclrtFreeHost", address) == 107000
    assert only(reports, "double_free", "aclrtFreeHost").startswith(f"hostPtr is {address:#x}, byte 0 of the 20 bytes")


def test_what_is_given_out_again_is_other_memory(rt: Runtime, memory: int) -> None:
    for _ in range(200):
        address = rt.malloc_host(20)
        rt.write(memory, ctypes.string_at(address, 20))
        rt.ok("aclrtMemcpy", address, 20, memory, 20, D2H)
        rt.ok("aclrtFreeHost", address)


@pytest.mark.parametrize("call", ["aclrtMemcpy", "aclrtMemcpyAsync"])
@pytest.mark.parametrize(("to", "origin"), [(4, 0), (0, 31)])
def test_copies_onto_themselves(rt: Runtime, memory: int, reports: Any, call: str, to: int, origin: int) -> None:
    stream = () if call == "aclrtMemcpy" else (None,)
    rt.ok(call, memory + to, 32, memory + origin, 32, D2D, *stream)
    rt.ok("aclrtSynchronizeDevice")
    shared = 32 - abs(to - origin)
    assert only(reports, "overlapping_copy", call) == (
        f"src, {memory + origin:#x}, and dst, {memory + to:#x}, share {shared} of the 32 bytes to copy; a device "
        "copies them in no order that is promised: copy by way of other memory, or in parts that do not overlap"
    )


def test_neighbours_are_none(rt: Runtime, memory: int) -> None:
    rt.ok("aclrtMemcpy", memory + 32, 32, memory, 32, D2D)
    rt.ok("aclrtMemcpy", memory, 32, memory + 32, 32, D2D)
    rt.ok("aclrtMemcpy", memory, 32, memory, 32, D2D)
