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

import ml_dtypes
import numpy as np
from conftest import LIVE, Sim

import aclnn_kvcache as kv
from aclnn_kvcache.runtime import stream
from aclnn_kvcache.smoke.runner import run_cases

SCATTER, FUSED = "scatter_pa_kv_cache_with_k_scale", "qkv_rms_norm_rope_cache_with_k_scale"
HEADS = (2, 1, 1)
Arrays = dict[str, Any]


def scatter_arrays() -> Arrays:
    """T=3, N=1, B=2, S=4, D=8."""
    rng = np.random.default_rng(0)
    shapes = {"key": (3, 1, 8), "value": (3, 1, 8), "key_cache": (2, 1, 4, 8), "value_cache": (2, 1, 4, 8)}
    made: Arrays = {
        name: rng.integers(0, 256, shape, np.uint8).view(ml_dtypes.float8_e4m3fn) for name, shape in shapes.items()
    }
    made["slot_mapping"] = np.array([0, 6, 3], np.int32)
    made["key_scale"] = np.arange(3, dtype=np.float32)[:, None]
    return made | {"key_scale_cache": np.full((2, 1, 4, 1), -1, np.float32)}


def fused_arrays() -> Arrays:
    """T=2, heads 2, 1, 1, B=2, S=4; all that is written is given, so that it can be seen to stay as it is."""
    rng, fp8 = np.random.default_rng(0), ml_dtypes.float8_e4m3fn
    angles = np.arange(8)[:, None] / 10000 ** (np.arange(64) / 64)
    return {
        "qkv": rng.standard_normal((2, sum(HEADS), 128)).astype(ml_dtypes.bfloat16),
        "q_gamma": np.ones(128, np.float32),
        "k_gamma": np.ones(128, np.float32),
        "cos_sin": np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32),
        "slot_mapping": np.array([6, 3], np.int32),
        "k_cache": np.full((2, 1, 4, 128), 0xAA, np.uint8).view(fp8),
        "v_cache": np.full((2, 1, 4, 128), 0x55, np.uint8).view(fp8),
        "k_scale_cache": np.full((2, 1, 4, 1), -1, np.float32),
        "query_start_loc": np.array([0, 2], np.int32),
        "seq_lens": np.array([2], np.int32),
        "rotation": np.eye(128).astype(ml_dtypes.bfloat16),
        "v_scale": np.array([1.5], np.float32),
        "q_out": np.full((2, 2, 128), 0x33, np.uint8).view(fp8),
        "q_scale": np.full((2, 2), -1, np.float32),
    }


def scatter(session: kv.Session, arrays: Arrays, **options: Any) -> None:
    session.scatter_pa_kv_cache_with_k_scale(**arrays, **options)


def fused(session: kv.Session, arrays: Arrays, **options: Any) -> None:
    session.qkv_rms_norm_rope_cache_with_k_scale(**arrays, head_nums=HEADS, layout_q_out="TND", **options)


@contextmanager
def on_device(session: kv.Session, arrays: Arrays) -> Iterator[Arrays]:
    """Device copies; what became of them is fetched before any array is changed, if nothing fails."""
    copies = {name: session.array(array) for name, array in arrays.items()}
    yield copies
    results = {name: copy.numpy() for name, copy in copies.items()}
    for name, result in results.items():
        arrays[name][...] = result
    for copy in copies.values():
        copy.close()


def device_scatter(session: kv.Session, arrays: Arrays) -> None:
    with on_device(session, arrays) as copies:
        scatter(session, copies)


def device_fused(session: kv.Session, arrays: Arrays) -> None:
    with on_device(session, arrays) as copies:
        fused(session, copies)


def two_streams(session: kv.Session, arrays: Arrays) -> None:
    """The second stream clears what the first has written, and waits for an event to write it again."""
    second, start, end = session.create_stream(), session.create_event(), session.create_event()
    with on_device(session, arrays) as copies:
        start.record(session.stream)
        scatter(session, copies)
        end.record(session.stream)
        second.wait(end)
        scatter(session, copies, stream=second)
        second.synchronize()
        end.synchronize()
        assert end.query() and second.query() and end.elapsed_ms(start) >= 0
    second.close()
    start.close()
    end.close()


def many_calls(session: kv.Session, arrays: Arrays) -> None:
    """A stream that is not synchronised records an event of its own, and later again."""
    with on_device(session, arrays) as copies:
        for _ in range(2):
            scatter(session, copies)
            scatter(session, copies)
            session.stream.synchronize()


def transfer(session: kv.Session, arrays: Arrays) -> None:
    """Upload, views, read-back."""
    array = session.array(arrays["value"])
    back = array[1:, :, ::2].numpy()
    empty = session.empty((4, 5), np.int32)
    arrays["key_cache"][0, 0, :2, :4] = back[:, 0]
    array.close()
    empty.close()


class Told(kv.KvCacheError):
    """The smoke test says that a case failed, which is all that it says."""


def smoke(session: kv.Session, arrays: Arrays) -> None:
    (result,) = run_cases(session, ["small-heads"], 0, lambda: 60.0, "aclnn-kvcache smoke")
    if result.verdict != "pass":
        raise Told(f"{result.verdict}: {result.detail}")


def left_open(session: kv.Session, arrays: Arrays) -> None:
    """What is left to the close."""
    session.kept = session.array(arrays["key"]), session.create_event(), session.create_stream()  # type: ignore[attr-defined]


class Scenario(NamedTuple):
    act: Callable[[kv.Session, Arrays], None]
    arrays: Callable[[], Arrays] = scatter_arrays
    blocking: bool = False
    records: bool = False
    foreign: bool = False
    """A context of somebody else's is bound to the thread; it must be put back."""


SCENARIOS = {
    "session": Scenario(left_open),
    "host scatter": Scenario(scatter),
    "host fused": Scenario(fused, fused_arrays),
    "device scatter": Scenario(device_scatter),
    "device fused": Scenario(device_fused, fused_arrays),
    "two streams": Scenario(two_streams),
    "many calls": Scenario(many_calls),
    "transfer": Scenario(transfer),
    "foreign context": Scenario(scatter, foreign=True),
    "recording": Scenario(scatter, records=True),
    "blocking": Scenario(device_scatter, blocking=True),
    "smoke": Scenario(smoke),
}

gc.freeze()  # what was imported need not be looked at again and again
sim = Sim()
stream.FLIGHT = 8  # so that the second call of a stream begins another
assert sim.aclsim_set_schedule(b"lazy") == 0  # work that nobody waits for is still to come: what it needs must be there


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
def somebody_elses_context(problems: list[str]) -> Iterator[None]:
    """Binds a context of another device to the thread, and looks whether it is bound still at the end."""
    before, after = ctypes.c_void_p(), ctypes.c_void_p()
    assert (sim.aclrtSetDevice(1), sim.aclrtGetCurrentContext(ctypes.byref(before))) == (0, 0)
    yield
    sim.aclrtGetCurrentContext(ctypes.byref(after))
    if before.value != after.value:
        problems.append("the thread lost its context")
    assert sim.aclrtResetDevice(1) == 0


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
        assert not good.errors and not good.problems, good
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
        before, misuses = live(), sim.counter("ACLSIM_MISUSES")
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
        if sim.counter("ACLSIM_MISUSES") != misuses:
            problems.append("undefined use")
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
