# SPDX-License-Identifier: Apache-2.0
"""Fails each native call of a scenario in turn, and looks at what becomes of it. A program of its own, since a library
that fails to destroy an object leaves it alive in the process: ``python sweep.py SCENARIO`` prints JSON, by MANNERS."""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from conftest import LIVE, Sim
from scenarios import SCENARIOS, Arrays, Scenario

import aclnn_kvcache as kv
from aclnn_kvcache.runtime import event, stream

gc.freeze()  # what was imported need not be looked at again and again
sim = Sim()
event.SLICES = (60_000,)  # one native call for each wait, however busy the machine is
stream.FLIGHT = 8  # so that the second call of a stream begins another
assert sim.aclsim_set_schedule(b"lazy") == 0  # work that nobody waits for is still to come: what it needs must be there
WATCHED = b"mem,init,race,sync,api"  # leaks are counted here
assert sim.aclsim_set_checks(WATCHED) == 0


def live() -> Counter[str]:
    """Live objects by kind."""
    gc.collect()
    return Counter({name: sim.counter(name) for name in LIVE if name != "ACLSIM_LIVE_DEVICE_BYTES"})


def contents(arrays: Arrays) -> list[bytes]:
    return [array.tobytes() for array in arrays.values()]


class Outcome(NamedTuple):
    calls: list[str]
    errors: list[Exception]
    happened: int
    problems: list[str]


def attempt(step: Callable[[], Any], errors: list[Exception]) -> Any:
    """What the step gives; None if it failed. Recording says by a warning what it could not do."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kv.RecordWarning)
        result = None
        try:
            result = step()
        except Exception as error:
            errors.append(error.with_traceback(None))
    errors.extend(w.message for w in caught if isinstance(w.message, kv.RecordWarning))
    return result


def opened(scenario: Scenario, record: str | None) -> kv.Session:
    return kv.Session("simulator", blocking=scenario.blocking, record=record)


@contextmanager
def unwatched() -> Iterator[None]:
    """For what the sweep itself does, before a session opens or after it closed."""
    assert sim.aclsim_set_checks(b"none") == 0
    yield
    assert sim.aclsim_set_checks(WATCHED) == 0


@contextmanager
def somebody_elses_context(problems: list[str]) -> Iterator[None]:
    """Binds a context of another device to the thread, and looks whether it is bound still at the end."""
    before, after = ctypes.c_void_p(), ctypes.c_void_p()
    with unwatched():
        assert (sim.aclrtSetDevice(1), sim.aclrtGetCurrentContext(ctypes.byref(before))) == (0, 0)
    yield
    with unwatched():
        sim.aclrtGetCurrentContext(ctypes.byref(after))
        assert sim.aclrtResetDevice(1) == 0
    if before.value != after.value:
        problems.append("the thread lost its context")


def live_through(scenario: Scenario, plan: str, expected: list[bytes] | None) -> tuple[Outcome, list[bytes]]:
    """Opens a session, does the work, again if that fails, and closes. Without ``expected`` nothing may fail."""
    arrays, errors, problems = scenario.arrays(), [], []
    before = contents(arrays)
    folder = tempfile.TemporaryDirectory() if scenario.records else nullcontext()
    with folder as record, somebody_elses_context(problems) if scenario.foreign else nullcontext():
        assert sim.aclsim_set_faults(plan.encode()) == 0
        session = attempt(lambda: opened(scenario, record), errors) or opened(scenario, record)
        failures = len(errors)
        attempt(lambda: scenario.act(session, arrays), errors)
        if any(not isinstance(error, kv.RecordWarning) for error in errors[failures:]):
            if contents(arrays) not in (before, expected):
                problems.append("host arrays are neither as before nor as after")
            try:
                scenario.act(session, arrays)
            except Exception as error:
                problems.append(f"the next call fails: {error!r}")
        attempt(session.close, errors)
        if not session.closed:
            problems.append("the session is not closed")
        happened = sim.aclsim_fault_count()
        calls = [sim.aclsim_call_name(n + 1).decode() for n in range(sim.aclsim_call_count())]
        assert sim.aclsim_set_faults(None) == 0
    after = contents(arrays)
    if expected is not None and after != expected:
        problems.append("wrong results")
    return Outcome(calls, errors, happened, problems), after


def put_away() -> None:
    """Gives back what a session could not, since the library failed: the device, and ACL."""
    with unwatched():
        for device in (0, 1):
            while sim.aclrtResetDevice(device) == 0:
                pass
        while sim.aclFinalizeReference(None) == 0:
            pass
        while sim.aclGetRecentErrMsg():
            pass


class Sweep:
    """What became of the failures of one scenario."""

    def __init__(self, scenario: Scenario, manner: str) -> None:
        self.scenario, self.manner = scenario, manner
        good, self.expected = live_through(scenario, "count", None)
        assert (good.errors, good.problems) == ([], [])
        again, _ = live_through(scenario, "count", self.expected)
        assert again == good, "the scenario is not the same every time"
        self.calls = good.calls
        self.failed: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.silent: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.problems: list[tuple[str, str]] = []

    def run(self) -> dict[str, Any]:
        for number, function in enumerate(self.calls, 1):
            self.fail(number, function)
        names = ("failed", "told", "silent", "left", "problems")
        return {"calls": len(self.calls), **{name: getattr(self, name) for name in names}}

    def fail(self, number: int, function: str) -> None:
        before = live()
        outcome, _ = live_through(self.scenario, f"call#{number}=fail{self.manner}", self.expected)
        problems = [*outcome.problems]
        if outcome.happened:
            self.failed[function] += 1
        if outcome.calls[number - 1 : number] != [function]:
            problems.append(f"it was {outcome.calls[number - 1 :]} this time")
        problems += [f"{error!r} does not tell of it" for error in outcome.errors if not tells(error, function)]
        if len(outcome.errors) > 1:
            problems.append(f"it is told {len(outcome.errors)} times: {outcome.errors}")
        if outcome.errors:
            self.told[type(outcome.errors[0]).__name__] += 1
        elif outcome.happened:
            self.silent[function] += 1
        after = live()
        self.left.update({f"{function} {kind}": after[kind] - before[kind] for kind in after})
        problems += [
            f"reported: {report['check']}:{report['kind']} in {report['function']}" for report in sim.reports()
        ]
        put_away()
        before = live()
        good, _ = live_through(SCENARIOS["host scatter"], "", EXPECTED)
        problems += [f"the next session: {what}" for what in (*good.errors, *good.problems)]
        if live() != before:
            problems.append("the next session leaves something alive")
        self.problems += [(function, f"call {number} of {len(self.calls)}: {problem}") for problem in problems]


def tells(error: Exception, function: str) -> bool:
    """Whether an error of the package names the function as the one that failed."""
    if isinstance(error, kv.AclError):
        return error.api.partition("(")[0] == function
    return isinstance(error, (kv.KvCacheError, kv.RecordWarning)) and function in str(error)


MANNERS = ("", ":after")
"""A call that fails does nothing, or does its work and then says that it failed."""

_, EXPECTED = live_through(SCENARIOS["host scatter"], "", None)

if __name__ == "__main__":
    print(json.dumps({manner: Sweep(SCENARIOS[sys.argv[1]], manner).run() for manner in MANNERS}))
