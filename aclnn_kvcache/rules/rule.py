# SPDX-License-Identifier: Apache-2.0
"""A rule as a row of a table, the call that it looks at, and the contract of an operator that the rows make up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.region import Region, touching

NULL, INVALID, INNER = 161001, 161002, 561103


class Unanswerable(Exception):
    """A rule cannot be asked: what it needs is missing, unknown, or so wrong that another rule says so."""


@dataclass
class Call:
    """What the rules see of a call."""

    specs: Mapping[str, TensorSpec | None]
    """Every tensor of the operator by name."""
    attributes: Mapping[str, Any]
    """Every attribute of the operator by name."""
    values: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """The integer tensors whose values are on the host."""
    regions: Mapping[str, Region] = field(default_factory=dict)
    """The memory of the tensors for which it is known."""
    touching: frozenset[tuple[str, str]] = field(init=False)
    """The pairs of names, in either order, whose spans of memory meet: few or none, so that the rest is cheap."""

    def __post_init__(self) -> None:
        self.touching = touching(self.regions)

    def spec(self, name: str) -> TensorSpec:
        spec = self.specs[name]
        if spec is None:
            raise Unanswerable
        return spec

    def shape(self, name: str, rank: int) -> tuple[int, ...]:
        shape = self.spec(name).shape
        if len(shape) != rank:
            raise Unanswerable
        return shape

    def value(self, name: str) -> np.ndarray[Any, Any]:
        """The values of a tensor of one axis, if they are known and integers."""
        values = self.values.get(name)
        if values is None or values.ndim != 1 or values.dtype.kind not in "iu":
            raise Unanswerable
        return values


Broken: TypeAlias = Callable[[Call], Iterable[str]]
"""What is to be said of a call that breaks a rule: got, expected, what to do. May raise Unanswerable."""


class Rule(NamedTuple):
    """One thing that must hold."""

    id: str
    arguments: tuple[str, ...]
    expected: str
    """What must hold, as a sentence."""
    source: str
    """Where it is written: a line of CANN's phase 1, or what of the kernel makes it necessary."""
    broken: Broken
    status: int = 0
    """What CANN's phase 1 answers; 0 where it does not check."""
    ez: str | None = None
    """The code in CANN's message, if it has one."""


class Contract(NamedTuple):
    """An operator: its arguments by this package's names, and its rules in CANN's order of checks."""

    name: str
    """That of the method, such as ``scatter_pa_kv_cache_with_k_scale``."""
    api: str
    """That of the C function of phase 2."""
    parameters: tuple[str, ...]
    """Tensors and attributes in the order of the C function, without its out-parameters."""
    tensors: tuple[str, ...]
    caches: tuple[str, ...]
    """Tensors that are changed in place."""
    outputs: tuple[str, ...]
    """Tensors that are only written."""
    values: tuple[str, ...]
    """Tensors whose values the rules look at, where they are on the host."""
    attributes: Mapping[str, Any]
    """What the method's keywords that are no tensors stand for when they are left out."""
    layout_rules: tuple[Rule, ...]
    """Rules on specs and attributes."""
    value_rules: tuple[Rule, ...]
    """Rules on values; CANN checks none of these and of the following."""
    self_overlap_rules: tuple[Rule, ...]
    """Rules on the memory of each written tensor."""
    overlap_rules: tuple[Rule, ...]
    """Rules on the memory of two tensors."""
    answers_success_early: Callable[[Call], bool]
    """Whether CANN answers 0 without looking at anything but NULL."""
    comparison: Callable[[Mapping[str, Any], Mapping[str, Any]], Mapping[str, str]]
    """The rule of ``compare`` for each result of a call, with these tensors (None where there is none) and attributes,
    that need not equal the oracle's byte by byte."""
    made_outputs: Callable[[Mapping[str, TensorSpec | None], Mapping[str, Any]], Mapping[str, TensorSpec]]
    """The outputs that such a call makes itself where none are given."""
    scales: Mapping[str, str] = {}
    """What holds the scales of a result; with rule "mx" the two are compared together."""
    revision: str | None = None
    """Of the C function's arguments, where these have changed."""
    optional: tuple[str, ...] = ()
    """Tensors that the method's caller may leave out."""
    later_rules: tuple[Rule, ...] = ()
    """One rule for each argument of the method that only later revisions have."""

    @property
    def data_rules(self) -> tuple[Rule, ...]:
        return self.value_rules + self.self_overlap_rules + self.overlap_rules

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.layout_rules + self.data_rules

    @property
    def later(self) -> tuple[str, ...]:
        """Arguments of the method that only later revisions have."""
        return tuple(name for rule in self.later_rules for name in rule.arguments)

    @property
    def written(self) -> tuple[str, ...]:
        return self.caches + self.outputs

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors that are only read."""
        return tuple(name for name in self.tensors if name not in self.written)

    def check_layout(self, call: Call) -> list[Finding]:
        """All that is wrong with specs and attributes, in CANN's order: the first status that is not 0 is CANN's."""
        found = _find(self.later_rules + self.layout_rules, call)
        if found and self.answers_success_early(call):
            return [finding if finding.status == NULL else finding._replace(status=0, ez=None) for finding in found]
        return found

    def check_data(self, call: Call) -> list[Finding]:
        """All that is wrong with values and memory, as far as the call knows them.

        Every launch pays for this, so rules that have nothing to look at are not asked.
        """
        return [
            *(_find(self.value_rules, call) if call.values else ()),
            *_find(self.self_overlap_rules, call),
            *(_find(self.overlap_rules, call) if call.touching else ()),
        ]

    def check(self, call: Call) -> list[Finding]:
        return self.check_layout(call) + self.check_data(call)


def _find(rules: Iterable[Rule], call: Call) -> list[Finding]:
    found = []
    for rule in rules:
        try:
            for message in rule.broken(call):
                found.append(Finding(rule.id, rule.arguments, message, rule.status, rule.ez))
        except Unanswerable:
            continue
    return found
