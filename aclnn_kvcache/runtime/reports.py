# SPDX-License-Identifier: Apache-2.0
"""What the simulator's checks found, as records."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library

NEXT = "aclsim_next_report"

_lock = threading.Lock()


class Report(NamedTuple):
    """Something that a check of the simulator found. It changed no status, and raised nothing."""

    sequence: int
    """Counts the reports of the process, from 1. A gap tells that some were lost: at most 1024 wait to be read."""
    check: str
    """"mem", "init", "race", "sync", "api" or "leak"."""
    kind: str
    """What is wrong, in a word: "out_of_bounds_write"."""
    function: str
    """The C function whose call it is about; for work on a stream the one that queued it."""
    text: str
    """The whole story: tensors, addresses, allocations, who made them."""
    device: int | None
    stream: int | None
    """Those of the work; None for what the call did itself."""
    thread: int | None
    """The one that made the call, as the system numbers threads (``threading.get_native_id``)."""

    def __str__(self) -> str:
        return f"{self.check}: {self.kind} in {self.function}: {self.text}"


def take_reports(library: Library) -> list[Report]:
    """Those that nobody has taken yet, oldest first; none from libraries that make none."""
    import json  # not on import of the package: most programs never need it

    found: list[Report] = []
    if not library.exports(NEXT):
        return found
    with _lock:
        while size := library.aclsim_next_report(None, 0):
            buffer = ctypes.create_string_buffer(size)
            library.aclsim_next_report(buffer, size)
            facts = json.loads(buffer.value.decode("utf-8", "replace"))
            found.append(Report(*(facts.get(name) for name in Report._fields)))
    return found
