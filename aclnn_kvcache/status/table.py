# SPDX-License-Identifier: Apache-2.0
"""What is known about a status, and what its number alone says."""

from __future__ import annotations

from typing import NamedTuple


class Status(NamedTuple):
    """A status by number; ``aliases`` are other names of the same number."""

    value: int
    name: str
    meaning: str
    aliases: tuple[str, ...] = ()


class Advice(NamedTuple):
    """Usual causes and what to do; ``telling``, if not empty: how to tell wrong arguments from a wrong installation."""

    causes: str
    action: str
    telling: str = ""


class Group(NamedTuple):
    """Statuses that one advice serves."""

    causes: str
    action: str
    rows: tuple[tuple[int, str, str], ...]
    """Value, C name and meaning of each."""
    telling: str = ""


class Family(NamedTuple):
    """What the digits of a status say."""

    kind: str
    owner: str
    advice: Advice


KINDS = {
    1: (
        "a mistake of the caller",
        Advice("an argument, or the order of calls, is not what the function takes", "look at the call that answered"),
    ),
    2: (
        "an exhausted resource or an unsupported feature",
        Advice(
            "memory or handles are used up, or product, driver and CANN do not have the feature",
            "look at what is in use, and at versions with aclnn-kvcache doctor",
        ),
    ),
    3: (
        "a condition at run time",
        Advice("something that was called inside failed", "look for its own code: aclnn-kvcache explain --plog"),
    ),
    5: (
        "an internal failure",
        Advice(
            "arguments that a later step refused, an incomplete installation, or a fault on the device",
            "read the library's message and the log: aclnn-kvcache explain --plog",
        ),
    ),
}
"""By the first of the six digits."""

OWNERS = {
    0: "the acl layer",
    7: "the runtime",
    45: "the graph executor",
    48: "the acl layer",
    61: "aclnn",
}
"""By the second and third digit."""


def family(value: int) -> Family | None:
    """The family of a status by its number, known or not; None for what no status of CANN looks like."""
    kind, owner = divmod(value // 1000, 100)
    if kind not in KINDS or owner not in OWNERS:
        return None
    return Family(KINDS[kind][0], OWNERS[owner], KINDS[kind][1])
