# SPDX-License-Identifier: Apache-2.0
"""Status codes of aclnn, aclrt and the graph executor, as data; one file per number space.

``aclError`` and ``aclnnStatus`` share one number space: 1xxxxx is a caller's mistake, 2xxxxx a resource or an
unsupported feature, 3xxxxx a runtime condition, 5xxxxx an internal failure. Where two names stand for one number, the
first row is the name that messages use.
"""

from __future__ import annotations

from functools import lru_cache

from aclnn_kvcache.status import (
    acl,
    aclnn,
    graph_executor,
    runtime_caller,
    runtime_fault,
    runtime_internal,
    runtime_resource,
)
from aclnn_kvcache.status.table import Advice, Family, Group, Status, family

__all__ = [
    "ADVICE",
    "GROUPS",
    "Advice",
    "Family",
    "Group",
    "Status",
    "describe",
    "family",
    "named",
    "names",
    "statuses",
]

_PARTS = (aclnn, acl, runtime_caller, runtime_resource, runtime_internal, runtime_fault, graph_executor)

GROUPS: tuple[Group, ...] = tuple(group for part in _PARTS for group in part.GROUPS)

ADVICE: dict[int, Advice] = {
    value: Advice(group.causes, group.action, group.telling) for group in GROUPS for value, _, _ in group.rows
}
"""Usual causes and what to do, for every known status."""


@lru_cache(maxsize=1)
def statuses() -> dict[int, Status]:
    """All known statuses by number."""
    table: dict[int, Status] = {}
    for value, name, meaning in (row for group in GROUPS for row in group.rows):
        first = table.setdefault(value, Status(value, name, meaning))
        if name != first.name:
            table[value] = first._replace(aliases=(*first.aliases, name))
    return table


@lru_cache(maxsize=1)
def _by_name() -> dict[str, Status]:
    return {name: status for status in statuses().values() for name in (status.name, *status.aliases)}


def named(name: str) -> Status | None:
    """The status with this C name, written in any case."""
    return _by_name().get(name.upper())


def names() -> tuple[str, ...]:
    """The C names of all known statuses."""
    return tuple(_by_name())


def describe(value: int) -> Status:
    """The status of this number; one named UNKNOWN if no table has it, with what the number alone says."""
    known = statuses().get(value)
    if known:
        return known
    kin = family(value)
    says = f"by its number {kin.kind}, reported by {kin.owner}" if kin else "its number is in no family of CANN's"
    return Status(value, "UNKNOWN", f"a code that no header of CANN 9.1 lists; {says}")
