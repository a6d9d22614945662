# SPDX-License-Identifier: Apache-2.0
"""The simulator, its C functions one by one, and the promise that no test leaves anything alive in it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import aclnn_kvcache as kv
from aclnn_kvcache.native import library, prototypes

LIVE = (
    "ACLSIM_LIVE_DEVICE_ALLOCATIONS",
    "ACLSIM_LIVE_DEVICE_BYTES",
    "ACLSIM_LIVE_HOST_ALLOCATIONS",
    "ACLSIM_LIVE_CONTEXTS",
    "ACLSIM_LIVE_STREAMS",
    "ACLSIM_LIVE_EVENTS",
    "ACLSIM_LIVE_TENSORS",
    "ACLSIM_LIVE_HOLDERS",
    "ACLSIM_LIVE_EXECUTORS",
)


class Sim:
    """``sim.aclrtMalloc(...)``: the typed C function; ``sim.constants["ACL_FLOAT"]``: an enum value or macro."""

    def __init__(self) -> None:
        self._library = library.load("simulator")
        self.constants = prototypes.declarations().constants

    def __getattr__(self, name: str) -> Any:
        return self._library.function(name)

    def counter(self, name: str) -> int:
        return int(self.aclsim_counter(self.constants[name]))

    def live(self) -> dict[str, int]:
        """The live objects by kind, of the kinds that have any."""
        gc.collect()
        counts = {name: self.counter(name) for name in LIVE}
        return {name: count for name, count in counts.items() if count}


@pytest.fixture(scope="session")
def sim() -> Sim:
    gc.collect()
    gc.freeze()  # what was imported need not be looked at again after every test
    return Sim()


@pytest.fixture(autouse=True)
def nothing_left_alive(sim: Sim) -> Iterator[None]:
    yield
    assert sim.live() == {}


@pytest.fixture
def session(nothing_left_alive: None) -> Iterator[kv.Session]:
    with kv.Session(backend="simulator") as opened:
        yield opened


@pytest.fixture
def held(sim: Sim) -> Iterator[Sim]:
    """Streams that do not start their next task before the test calls ``held.aclsim_release_streams()``."""
    sim.aclsim_hold_streams()
    yield sim
    sim.aclsim_release_streams()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The figures of test_sweep.py, if it ran."""
    figures: Counter[str] = Counter()
    for report in (*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())):
        for name, value in report.user_properties:
            if name == "sweep":
                figures.update(value)
    if figures:
        terminalreporter.write_line(
            f"sweep: {figures['failed']} native calls failed in turn, {figures['told']} typed errors, "
            f"{figures['silent']} harmless, {figures['leaks']} leaks, {figures['crashes']} crashes"
        )
