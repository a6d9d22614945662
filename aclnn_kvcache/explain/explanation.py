# SPDX-License-Identifier: Apache-2.0
"""What was recognised, and how it is told."""

from __future__ import annotations

from typing import Any, NamedTuple

from aclnn_kvcache import status
from aclnn_kvcache.explain.messages import describe_message, known_messages
from aclnn_kvcache.explain.reports import known_reports

LONGEST_TEXT = 4 << 20
"""Characters of a text that are looked at: the last ones, as an error stands at the end of a log."""

CHECKS = (
    "`aclnn-kvcache check` looks at the arguments of a call, `aclnn-kvcache doctor` at the installation; "
    "`aclnn-kvcache replay` makes a recorded call again, on the simulator too"
)


class Cause(NamedTuple):
    """One thing that was recognised."""

    kind: str
    """"status", "message" (a code such as EZ0028), "report" (of a check of the simulator) or "phrase"."""
    code: str
    """The number, the message code, the kind of report, or the phrase as it stood there."""
    name: str
    """The C name of a status, the title of the message of a code or report."""
    meaning: str
    causes: str
    action: str
    telling: str = ""
    """How to tell wrong arguments from a wrong installation, where one code stands for both."""
    aliases: tuple[str, ...] = ()
    """Other C names of the same number."""
    known: bool = True
    line: str = ""
    """The line of a text in which it stood, without times, process numbers and source places."""
    noise: bool = False
    """Whether it usually follows from something else in the same text."""

    def __str__(self) -> str:
        head = f"{self.code} {self.name}".rstrip()
        lines = [f"{head}: {self.meaning}"]
        if self.line and self.line != self.code:
            lines += [f"in:          {self.line}"]
        lines += [f"usual cause: {self.causes}", f"what to do:  {self.action}"]
        if self.telling:
            lines += [f"your tensors or your installation? {self.telling}. {CHECKS}"]
        if self.aliases:
            lines += [f"also called: {', '.join(self.aliases)}"]
        return "\n  ".join(lines)


class Explanation(NamedTuple):
    """What is known about a code or a text; as a string it is to be read.

    ``causes`` holds what was recognised, the most telling first, noise last; ``similar`` known names like the one that
    is not known.
    """

    what: str
    causes: tuple[Cause, ...] = ()
    similar: tuple[str, ...] = ()
    unread: int = 0
    """Characters of a long text, from its start, that were not looked at."""

    @property
    def is_known(self) -> bool:
        """Whether anything was recognised, at least the family of a code."""
        return any(cause.known or cause.kind != "status" or status.family(int(cause.code)) for cause in self.causes)

    def __str__(self) -> str:
        if not self.causes:
            return f"nothing known in: {_short(self.what)}{_or(self.similar)}\n  {_HELP}{self._limit}"
        parts = [str(cause) for cause in self.causes if not cause.noise]
        noise = dict.fromkeys(cause.line for cause in self.causes if cause.noise)
        if noise:
            parts += ["\n  ".join(["usual noise, not the cause:", *noise])]
        return "\n\n".join(parts) + self._limit

    @property
    def _limit(self) -> str:
        return f"\n\nonly the end was looked at: {self.unread} characters before it were not" if self.unread else ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON; of a long text only the start."""
        causes = [cause._asdict() for cause in self.causes]
        return {"what": _short(self.what), "causes": causes, "similar": self.similar, "unread": self.unread}


_HELP = (
    "explain takes a status (161002), its C name, a message code (EZ0028), a report of the simulator (use_after_free), "
    "or any text that has one of them in it"
)


def of_status(value: int, line: str = "") -> Cause:
    known, advice = status.describe(value), status.advice_on(value)
    about = (known.meaning, advice.causes, advice.action, advice.telling, known.aliases)
    return Cause("status", str(value), known.name, *about, known=value in status.statuses(), line=line)


def of_message(code: str, line: str = "") -> Cause:
    known = describe_message(code)
    about = (known.meaning, known.causes, known.action)
    return Cause("message", code, known.title, *about, known=code in known_messages(), line=line)


def of_report(kind: str, line: str = "") -> Cause:
    known = known_reports()[kind]
    return Cause("report", kind, known.title, known.meaning, known.causes, known.action, line=line)


def _or(similar: tuple[str, ...]) -> str:
    return f"; did you mean {' or '.join(similar)}?" if similar else ""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 100 else f"{text[:99]}…"
