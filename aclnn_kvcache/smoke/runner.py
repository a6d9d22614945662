# SPDX-License-Identifier: Apache-2.0
"""Makes a case's data from its seed, runs it, and compares every byte with the oracle."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from aclnn_kvcache import oracle
from aclnn_kvcache.compare import Comparison, compare
from aclnn_kvcache.errors import KvCacheError, SynchronizeTimeoutError
from aclnn_kvcache.rules.scatter_pa_kv_cache_with_k_scale import CACHES
from aclnn_kvcache.session import Session
from aclnn_kvcache.smoke.cases import CASES, STORAGES, Case, Placed

Arrays = dict[str, np.ndarray[Any, Any]]

WHOLE = Placed("", lambda shape: shape, lambda base: base)


class Result(NamedTuple):
    name: str
    operator: str
    seed: int
    verdict: str
    """ "pass", "differ" or "error"."""
    counts: Mapping[str, Mapping[str, int]]
    """By storage array: how many rows are right, missing, wrong, stray and untouched."""
    detail: str
    seconds: float
    rerun: str
    """The command that repeats this case alone."""


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
    detail, verdict = "", "pass"
    try:
        comparisons = _compare_case(session, case, np.random.default_rng([seed, zlib.crc32(name.encode())]), remaining)
    except KvCacheError as error:
        verdict, detail = "error", str(error)
    wrong = {base: result for base, result in comparisons.items() if not result.ok}
    if wrong:
        verdict = "differ"
        detail = "\n".join(f"{base}: {result.summary()}" for base, result in wrong.items())
    counts = {base: dict(result.counts) for base, result in comparisons.items()}
    return Result(name, case.operator, seed, verdict, counts, detail, time.perf_counter() - start, rerun)


def _compare_case(
    session: Session, case: Case, rng: np.random.Generator, remaining: Callable[[], float]
) -> dict[str, Comparison]:
    places = {name: STORAGES[case.storage].get(name, WHOLE._replace(base=name)) for name in _shapes(case)}
    before = _bases(case, places, rng)
    arguments = {name: place.view(before[place.base]) for name, place in places.items()}
    expected = {name: base.copy() for name, base in before.items()}
    results = oracle.scatter_pa_kv_cache_with_k_scale(**arguments)
    for name, result in zip(CACHES, results, strict=True):
        places[name].view(expected[places[name].base])[...] = result
    actual = (_call_on_host if case.on_host else _call_on_device)(session, case, places, before, remaining)
    return {name: compare(actual[name], expected[name], before=before[name]) for name in actual}


def _call_on_host(
    session: Session, case: Case, places: Mapping[str, Placed], before: Arrays, remaining: Callable[[], float]
) -> Arrays:
    bases = {name: base.copy() for name, base in before.items()}
    session.scatter_pa_kv_cache_with_k_scale(
        **{name: place.view(bases[place.base]) for name, place in places.items()}, padding=_padding(case)
    )
    return bases


def _call_on_device(
    session: Session, case: Case, places: Mapping[str, Placed], before: Arrays, remaining: Callable[[], float]
) -> Arrays:
    with ExitStack() as cleanup:
        bases = {}
        for name, base in before.items():
            bases[name] = session.array(base)
            cleanup.callback(bases[name].close)
        session.scatter_pa_kv_cache_with_k_scale(
            **{name: place.view(bases[place.base]) for name, place in places.items()}, padding=_padding(case)
        )
        try:
            session.stream.synchronize(remaining())
        except SynchronizeTimeoutError:
            session.abandon()  # closing the arrays would wait for the work
            raise
        return {name: base.numpy() for name, base in bases.items()}


def _padding(case: Case) -> str:
    return "skip" if case.padding else "error"


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    cache = (case.blocks, case.heads, case.block_size)
    return {
        "key": (case.tokens, case.heads, case.key_size),
        "value": (case.tokens, case.heads, case.value_size),
        "key_cache": (*cache, case.key_size),
        "value_cache": (*cache, case.value_size),
        "slot_mapping": (case.tokens,),
        "key_scale": (case.tokens, case.heads),
        "key_scale_cache": (*cache, 1),
    }


def _bases(case: Case, places: Mapping[str, Placed], rng: np.random.Generator) -> Arrays:
    """Random bytes in every storage array, NaN patterns included; the slots as the case says."""
    bases: Arrays = {}
    for name, shape in _shapes(case).items():
        place = places[name]
        if name == "slot_mapping":
            bases[name] = _slots(case, rng)
        elif place.base not in bases:
            dtype = np.dtype(np.float32 if "scale" in name else getattr(ml_dtypes, case.fp8))
            whole = place.shape(shape)
            raw = rng.integers(0, 256, (*whole[:-1], whole[-1] * dtype.itemsize), np.uint8)
            bases[place.base] = raw.view(dtype)
    return bases


def _slots(case: Case, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    limit = case.blocks * case.block_size
    if case.run:
        slots = np.arange(case.tokens) + rng.integers(0, limit - case.tokens + 1)
    else:
        slots = rng.permutation(limit)[: case.tokens]
    slots[rng.permutation(case.tokens)[: case.padding]] = -1
    return slots.astype(case.slots)
