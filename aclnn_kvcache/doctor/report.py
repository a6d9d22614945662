# SPDX-License-Identifier: Apache-2.0
"""What an examination found, as text and as JSON."""

from __future__ import annotations

import json
from typing import NamedTuple

SCHEMA = 1

OK, WARNING, PROBLEM = "ok", "warning", "problem"

ABSENT = ("backend", "devices")
"""Topics whose problems mean that there is no such backend or device."""

NAMES = {
    "cann": "cann",
    "simulator": "simulator (no NPU is involved)",
    "none": "none: no libraries could be opened",
}


class Line(NamedTuple):
    topic: str
    verdict: str
    """ "ok", "warning" or "problem"."""
    text: str
    cure: str = ""
    """One command or one step; empty if there is nothing to cure."""


class Report(NamedTuple):
    backend: str
    """The backend examined: "cann", "simulator", or "none" if no libraries could be opened."""
    lines: tuple[Line, ...]

    @property
    def problems(self) -> list[Line]:
        return [line for line in self.lines if line.verdict == PROBLEM]

    @property
    def exit_code(self) -> int:
        """0 if the operators can run, 3 if there is no such backend or device, 4 for any other problem."""
        if any(line.topic in ABSENT for line in self.problems):
            return 3
        return 4 if self.problems else 0

    @property
    def summary(self) -> str:
        """One line: ready, or the first problem."""
        if self.problems:
            text = self.problems[0].text.splitlines()[0]
            problem, separator, _ = text.partition(". What to do: ")
            return f"not ready: {problem if separator else text.partition('. ')[0]}"
        warnings = sum(line.verdict == WARNING for line in self.lines)
        return f"ready: both operators run on backend {self.backend}; warnings: {warnings}"

    def __str__(self) -> str:
        return "\n".join([f"backend: {NAMES[self.backend]}", "", *map(_printed, self.lines), "", self.summary])

    def as_json(self) -> str:
        """One document. ``schema`` is raised when a field changes its meaning or goes."""
        document = {"schema": SCHEMA, "command": "doctor", "backend": self.backend}
        lines = [line._asdict() for line in self.lines]
        return json.dumps({**document, "lines": lines, "summary": self.summary, "exit_code": self.exit_code}, indent=2)


def _printed(line: Line) -> str:
    first, *others = line.text.splitlines() or [""]
    cure = [f"cure: {line.cure}"] if line.cure else []
    return "\n".join(
        [f"{line.verdict:7}  {line.topic:11}  {first}", *(f"{'':22}{other}" for other in [*others, *cure])]
    )
