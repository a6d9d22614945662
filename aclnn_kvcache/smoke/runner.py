# SPDX-License-Identifier: Apache-2.0
"""Makes a case's data from its seed, runs it, and compares every byte with the oracle."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache.compare import compare
from aclnn_kvcache.compare.report import Comparison
from aclnn_kvcache.compare.results import compare_results
from aclnn_kvcache.errors import KvCacheError, SynchronizeTimeoutError
from aclnn_kvcache.session import Session
from aclnn_kvcache.smoke.cases import CASES
from aclnn_kvcache.smoke.prepared import Arrays, Prepared


class Result(NamedTuple):
    name: str
    operator: str
    seed: int
    verdict: str
    """ "pass", "differ" or "error"."""
    counts: Mapping[str, Mapping[str, int]]
    """By storage array: how many rows are right, missing, wrong, stray and untouched."""
    detail: str
    note: str
    seconds: float
    rerun: str
    """The command that repeats this case alone."""
    revision: str = ""
    """Of the fused operator, where the caller knows it."""


def run_cases(
    session: Session, names: Iterable[str], seed: int, remaining: Callable[[], float], command: str
) -> Iterator[Result]:
    """Runs the cases one by one; stops after one that the device failed, since later answers would mean nothing.

    ``remaining`` gives the seconds that a wait may take; a device that does not answer in that time is given up.
    ``command`` is the command line of the run, without seed and cases.
    """
    for name in names:
        result = _run_case(session, name, seed, remaining, f"{command} --seed {seed} --case {name}")
        yield result
        if result.verdict == "error":
            return


def _run_case(session: Session, name: str, seed: int, remaining: Callable[[], float], rerun: str) -> Result:
    case, start = CASES[name], time.perf_counter()
    comparisons: dict[str, Comparison] = {}
    detail, note, verdict = "", "", "pass"
    try:
        if remaining() <= 0:
            return Result(name, case.operator, seed, "error", {}, "the time limit of the run has passed", "", 0, rerun)
        prepared = case.prepare(np.random.default_rng([seed, zlib.crc32(name.encode())]))
        note = prepared.note
        call = _call_on_host if case.on_host else _call_on_device
        actual = call(session, getattr(session, case.operator), prepared, remaining)
        comparisons = dict(_compare(prepared, actual))
    except KvCacheError as error:
        verdict, detail = "error", str(error)
    wrong = {base: result for base, result in comparisons.items() if not result.ok}
    if wrong:
        verdict = "differ"
        detail = "\n".join(f"{base}: {result.summary()}" for base, result in wrong.items())
    counts = {base: dict(result.counts) for base, result in comparisons.items()}
    return Result(name, case.operator, seed, verdict, counts, detail, note, time.perf_counter() - start, rerun)


def _compare(prepared: Prepared, actual: Arrays) -> Iterator[tuple[str, Comparison]]:
    """By storage array and returned array; what lies between the rows of a view is held to every byte in any case."""
    yield from compare_results(actual, prepared.expected, prepared.before, prepared.rules, prepared.scales)
    for base, before in prepared.before.items():
        if (gaps := prepared.gaps(base)).any():
            yield f"{base}, gaps", compare(actual[base][gaps], before[gaps])


def _call_on_host(
    session: Session, method: Callable[..., Any], prepared: Prepared, remaining: Callable[[], float]
) -> Arrays:
    bases = {name: base.copy() for name, base in prepared.before.items()}
    returned = method(**prepared.arguments(bases), **prepared.options)
    return {**bases, **_made(prepared, returned)}


def _call_on_device(
    session: Session, method: Callable[..., Any], prepared: Prepared, remaining: Callable[[], float]
) -> Arrays:
    with ExitStack() as cleanup:
        bases = {}
        for name, base in prepared.before.items():
            bases[name] = session.array(base)
            cleanup.callback(bases[name].close)
        returned = method(**prepared.arguments(bases), **prepared.options)
        bases.update(_made(prepared, returned))
        try:
            session.stream.synchronize(max(remaining(), 0))
        except SynchronizeTimeoutError:
            session.abandon()  # closing the arrays would wait for the work
            raise
        return {name: base.numpy() for name, base in bases.items()}


def _made(prepared: Prepared, returned: Any) -> dict[str, Any]:
    """What the call returned, without what it has not in its scene."""
    made = dict(zip(prepared.returned, returned or (), strict=True))
    return {name: array for name, array in made.items() if array is not None}
