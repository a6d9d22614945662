# SPDX-License-Identifier: Apache-2.0
"""Timing two things against each other: alternately, many times, by their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

Timed = Callable[[], float]
"""Does the work once and returns the seconds that it took, counted by itself."""


class Sample(NamedTuple):
    """Seconds of one thing."""

    median: float
    lowest: float
    spread: float
    """Between the quartiles, over the median."""


class Figure(NamedTuple):
    """One thing measured against another."""

    name: str
    subject: str
    baseline: str
    goal: str
    """In words; nothing is asserted."""
    unit: str
    """"ratio" (subject over baseline), "speed-up" (baseline over subject) or "µs above" (subject less baseline)."""
    value: float | None
    """None where it could not be measured; then ``note`` says why."""
    subject_seconds: Sample | None = None
    baseline_seconds: Sample | None = None
    note: str = ""


def timed(work: Callable[[], object], times: int = 1) -> Timed:
    """Times the work by the clock, ``times`` in a row; the result is for one."""

    def run() -> float:
        start = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - start) / times

    return run


def compare(subject: Timed, baseline: Timed, repeats: int) -> tuple[Sample, Sample]:
    """Both alternately, after one run of each that does not count."""
    subject(), baseline()
    pairs = [(subject(), baseline()) for _ in range(repeats)]
    first, second = zip(*pairs, strict=True)
    return _sample(first), _sample(second)


def figure(
    name: str, texts: tuple[str, str, str], unit: str, subject: Timed, baseline: Timed, repeats: int, note: str = ""
) -> Figure:
    """``texts``: what the subject and the baseline are, and the goal."""
    measured, base = compare(subject, baseline, repeats)
    values = {
        "ratio": measured.median / base.median,
        "speed-up": base.median / measured.median,
        "µs above": (measured.median - base.median) * 1e6,
    }
    return Figure(name, *texts, unit, values[unit], measured, base, note)


def missing(name: str, texts: tuple[str, str, str], unit: str, reason: str) -> Figure:
    return Figure(name, *texts, unit, None, note=reason)


def _sample(seconds: tuple[float, ...]) -> Sample:
    median = statistics.median(seconds)
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else (median,) * 3
    return Sample(median, min(seconds), (high - low) / median)
