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


GOALS = {
    "ratio": "at most {:g} times its time",
    "speed-up": "at least {:g} times faster",
    "µs above": "at most {:g} µs above",
    "ms above": "at most {:g} ms above",
    "bytes a launch": "at most {:g} byte a launch",
}
"""What a limit means, by the unit."""


class Texts(NamedTuple):
    """What is measured against what."""

    subject: str
    baseline: str
    limit: float | None = None
    """Of the goal, if there is one; nothing is asserted."""


class Figure(NamedTuple):
    """One thing measured against another."""

    name: str
    subject: str
    baseline: str
    limit: float | None
    unit: str
    """One of GOALS: "ratio" is subject over baseline, "speed-up" baseline over subject, "µs above" subject less
    baseline; or another, without a goal."""
    value: float | None
    """None where it could not be measured; then ``note`` says why."""
    subject_seconds: Sample | None = None
    baseline_seconds: Sample | None = None
    noisy: bool = False
    """Whether one of the two spreads more than they are apart."""
    note: str = ""

    @property
    def goal(self) -> str:
        """In words."""
        return "none" if self.limit is None else GOALS[self.unit].format(self.limit)

    @property
    def met(self) -> bool | None:
        """Whether the value reaches the goal; None without one of them."""
        if self.limit is None or self.value is None:
            return None
        return self.value >= self.limit if self.unit == "speed-up" else self.value <= self.limit


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


def figure(name: str, texts: Texts, unit: str, subject: Timed, baseline: Timed, repeats: int) -> Figure:
    measured, base = compare(subject, baseline, repeats)
    noise = max(sample.spread * sample.median for sample in (measured, base))
    values = {
        "ratio": measured.median / base.median,
        "speed-up": base.median / measured.median,
        "µs above": (measured.median - base.median) * 1e6,
    }
    return Figure(name, *texts, unit, values[unit], measured, base, noise > abs(measured.median - base.median))


def missing(name: str, texts: Texts, unit: str, reason: str) -> Figure:
    return Figure(name, *texts, unit, None, note=reason)


def _sample(seconds: tuple[float, ...]) -> Sample:
    median = statistics.median(seconds)
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else (median,) * 3
    return Sample(median, min(seconds), (high - low) / median)
