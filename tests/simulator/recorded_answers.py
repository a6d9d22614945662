# SPDX-License-Identifier: Apache-2.0
"""The answers of CANN's host code to phase-1 calls, and the simulator's to the same calls."""

from __future__ import annotations

import ctypes
import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import scatter_calls

CODE = re.compile(r"\bEZ\d{4}\b")
FIELDS = ("id", "status", "sized", "ez", "about")


def recorded(name: str) -> list[dict[str, Any]]:
    data = Path(__file__).parents[1] / "data" / f"phase1_rev_{name}.jsonl.gz"
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def names_pattern(names: Sequence[str]) -> re.Pattern[str]:
    """Any of the names as a word, the longest first."""
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<![\w+])(?:{'|'.join(map(re.escape, longest_first))})(?![\w+])")


def answer(
    device: Any,
    line: dict[str, Any],
    base: int,
    names: Sequence[str],
    attributes: Any,
    known: re.Pattern[str],
    check_text: Callable[[int, str, str], None],
) -> dict[str, Any]:
    """The fields of a recorded answer, from the simulator; ``check_text`` looks at status, code and text."""
    sim = device.sim
    handles = []
    for name in names:
        spec = line["tensors"][name]
        if spec is None:
            handles.append(None)
            continue
        dtype = sim.constants["ACL_" + spec["dtype"]]
        handles.append(
            device.tensor(spec["shape"], dtype, base, spec["strides"], spec["offset"], spec["storage"], spec["format"])
        )
    size = ctypes.c_uint64(scatter_calls.UNTOUCHED_SIZE)
    executor = ctypes.c_void_p(scatter_calls.UNTOUCHED_EXECUTOR)
    status = getattr(sim, f"{device.operator}GetWorkspaceSize")(
        *device.arguments(handles, attributes),
        None if line["attrs"].get("nullWorkspaceSize") else ctypes.byref(size),
        None if line["attrs"].get("nullExecutor") else ctypes.byref(executor),
    )
    text = device.message() or ""
    if status == 0:
        device.discard(executor)
    else:
        untouched = (scatter_calls.UNTOUCHED_SIZE, scatter_calls.UNTOUCHED_EXECUTOR)
        assert (size.value, executor.value) == untouched
    for handle in filter(None, handles):
        device.destroy(handle)
    codes = CODE.findall(text)
    assert len(codes) <= 1, text
    if codes:
        check_text(status, codes[0], text)
    got = (line["id"], status, status == 0 and size.value > 0, codes[0] if codes else None, known.findall(text))
    return dict(zip(FIELDS, got, strict=True))


def differences(device: Any, name: str, count: int, ask: Callable[[dict[str, Any], int], dict[str, Any]]) -> list[Any]:
    """Runs every recorded call, of which there are so many; pairs of the simulator's answer and CANN's that differ."""
    lines = recorded(name)
    assert len(lines) == count
    base = device.alloc(1024)
    executors = device.counter("ACLSIM_LIVE_EXECUTORS")
    wanted = [{name: line[name] for name in FIELDS} for line in lines]
    got = [ask(line, base) for line in lines]
    assert device.counter("ACLSIM_LIVE_EXECUTORS") == executors
    return [pair for pair in zip(got, wanted, strict=True) if pair[0] != pair[1]]
