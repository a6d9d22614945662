# SPDX-License-Identifier: Apache-2.0
"""The simulator with all its checks on, its C functions one by one, and two promises: no test leaves anything alive
in it, and none ends with a report that it did not ask for.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_calls import Runtime
from streams import Streams

import aclnn_kvcache as kv
from aclnn_kvcache.native import library, prototypes
from aclnn_kvcache.runtime.reports import take_reports

os.environ.setdefault("ACLSIM_CHECK", "all")  # in the processes that tests start, too

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

    def reports(self) -> list[dict[str, Any]]:
        """The reports that nobody has read yet, oldest first; they are gone then."""
        return [report._asdict() for report in take_reports(self._library)]

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


class Reports:
    """What the checks said, for tests that provoke it."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim

    def take(self) -> list[dict[str, Any]]:
        """What came since the last time, oldest first."""
        return self._sim.reports()

    def kinds(self) -> list[str]:
        """The same as ``check:kind``."""
        return [f"{report['check']}:{report['kind']}" for report in self.take()]


@pytest.fixture
def reports(sim: Sim) -> Reports:
    """A test that has this asks for reports; every other one fails if there is any."""
    return Reports(sim)


@pytest.fixture
def cheap_checks(sim: Sim, nothing_reported: None, reports: Reports) -> None:
    """Only the checks that are on by default: stray accesses go where the device's would."""
    sim.aclsim_set_checks(None)


@pytest.fixture(autouse=True)
def nothing_reported(sim: Sim, request: pytest.FixtureRequest) -> Iterator[None]:
    sim.aclsim_set_checks(b"all")
    yield
    marker = request.node.get_closest_marker("provokes")
    found = sim.reports()
    if marker is not None:
        assert {f"{report['check']}:{report['kind']}" for report in found} == set(marker.args), found
    else:
        assert found == [] or "reports" in request.fixturenames


@pytest.fixture
def initialised(sim: Sim) -> Iterator[Sim]:
    """ACL initialised, for tests that call the runtime's functions themselves."""
    assert sim.aclInit(None) == 0
    yield sim
    assert sim.aclFinalizeReference(None) == 0


@pytest.fixture
def rt(initialised: Sim, sim: Sim) -> Iterator[Runtime]:
    """The runtime's functions, in a thread with a device."""
    runtime = Runtime(sim)
    runtime.ok("aclrtSetDevice", 0)
    yield runtime
    runtime.ok("aclrtResetDevice", 0)


@pytest.fixture
def streams(rt: Runtime) -> Iterator[Streams]:
    streams = Streams(rt)
    yield streams
    streams.close()


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
