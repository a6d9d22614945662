# SPDX-License-Identifier: Apache-2.0
"""Work split over the cores: every part once, and results that do not depend on how many there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import compiled
import pytest
import qkv_calls as calls
import test_recorded_results as recorded


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


def test_every_part_runs_once(tmp_path: Path) -> None:
    program = tmp_path / "parallel"
    source = compiled.SIMULATOR / "core" / "parallel.c"
    compiled.compile_c("-D_GNU_SOURCE", "-pthread", compiled.HERE / "parallel.c", source, "-o", program)
    done = compiled.run(program)
    assert (done.returncode, done.stdout.decode()) == (0, "once each\n"), done.stderr.decode()


@pytest.mark.provokes("race:duplicate_slot")
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs the choice of cores")
def test_one_core_gives_what_all_give(device: Any) -> None:
    """The stream's thread comes into being with the cores of this one."""
    name = "tokens that share slots"
    options, digest = recorded.CASES[name]
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        call = calls.Call(device, rows=options["tokens"], **options)
        recorded.fill(call, name)
        assert call.run() == 0
    finally:
        os.sched_setaffinity(0, cores)
    assert recorded.digest(call.results()) == digest
