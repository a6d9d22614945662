# SPDX-License-Identifier: Apache-2.0
"""Reports of the simulator's checks, by kind.

A report is one sentence with names, addresses and what to do; this is what is true of all of its kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from aclnn_kvcache.explain.report_kinds import CHECKS, GROUPS


class Report(NamedTuple):
    kind: str
    title: str
    """Of its message."""
    meaning: str
    causes: str
    action: str


TITLE = "Simulator_Check_"
"""What a report's message begins with; the check follows, and its kind in brackets."""

_TOLD = re.compile(rf'{TITLE}\w{{3,4}}\(|\baclsim: \w{{3,4}}: |"kind": ?"')
_WORD = re.compile(r"\w{1,40}")


@lru_cache(maxsize=1)
def known_reports() -> dict[str, Report]:
    """By kind; and by its title in messages what each check is."""
    kinds = {row[0]: Report(row[0], TITLE + g.check, row[1], g.causes, g.action) for g in GROUPS for row in g.rows}
    for check, what in CHECKS.items():
        action = "explain the kind, which stands in brackets behind it, and do what the sentence behind that ends with"
        meaning = f"the {check} check of the simulator found something"
        kinds[TITLE + check] = Report(TITLE + check, "", meaning, f"it looks for {what}", action)
    return kinds


def reports_in(line: str) -> Iterator[str]:
    """The kinds of the reports in a line of a message, of standard error or of a file of reports."""
    for told in _TOLD.finditer(line):
        word = _WORD.match(line, told.end())
        if word and word[0] in known_reports():
            yield word[0]
