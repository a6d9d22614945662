# SPDX-License-Identifier: Apache-2.0
"""What a comparison says: rows by kind, and what a tolerant rule measured on their elements."""

from __future__ import annotations

from dataclasses import dataclass

WITHOUT_BEFORE = ("equal", "different")
WITH_BEFORE = ("right", "missing", "wrong", "stray", "untouched")
_GOOD = frozenset({"equal", "right", "untouched"})

# How much more than max_share a single element may be.
_LONE = 10


@dataclass(frozen=True)
class Row:
    """One row of a group: `actual` and `expected` hold the bytes, in memory order, from the first element that differs.

    `index` is the row's index on all axes but the last, `position` that of the element on the last axis. Where
    nothing differs by the rule, `position` is 0.
    """

    index: tuple[int, ...]
    position: int
    actual: bytes
    expected: bytes

    def __str__(self) -> str:
        place = ", ".join([*map(str, self.index), ":"])
        return (
            f"row [{place}], element {self.position}: actual {self.actual.hex(' ')}, expected {self.expected.hex(' ')}"
        )


@dataclass(frozen=True)
class RowGroup:
    """All rows of one kind: how many, and the first (None if there are none)."""

    kind: str
    count: int
    first: Row | None


@dataclass(frozen=True)
class CodeSteps:
    """What rules "fp8", "bf16" and "int8" measured: how many steps apart the elements are.

    `steps` holds (distance, elements) for each distance that occurs, 0 included; `apart` counts the elements that no
    distance describes, with a NaN or an infinity on one side only; `zeros` those where +0 stands against -0, which
    are equal. `where` is the index of the first element farthest apart, one of `apart` before all; None if all are
    equal.
    """

    compared: int
    steps: tuple[tuple[int, int], ...]
    apart: int
    zeros: int
    where: tuple[int, ...] | None
    max_steps: int
    max_share: float

    @property
    def histogram(self) -> dict[int, int]:
        """Number of elements by distance in steps."""
        return dict(self.steps)

    @property
    def unequal(self) -> int:
        """Elements that are not equal."""
        return self.compared - self.histogram.get(0, 0)

    @property
    def ok(self) -> bool:
        """All within `max_steps`, and few enough not equal: a share of at most `max_share`.

        In few elements a share says little: a single one may be up to ten times `max_share`, so that with 0.001 a
        lone element passes among a hundred (a head row has 128), but not among ten, and two pass only among 2,000.
        """
        within = not self.apart and all(distance <= self.max_steps for distance, _ in self.steps)
        return within and _few(self.unequal, self.compared, self.max_share)

    def __str__(self) -> str:
        steps = ", ".join(f"{distance}: {count}" for distance, count in self.steps) or "none"
        share = self.unequal / self.compared if self.compared else 0
        text = (
            f"elements by steps apart: {steps}; NaN or infinity on one side: {self.apart}; "
            f"+0 against -0: {self.zeros}; {share:.4%} not equal, "
            f"allowed {self.max_share:.4%} and {_steps(self.max_steps)}"
        )
        return text if self.where is None else f"{text}; farthest apart at {list(self.where)}"


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _few(found: int, compared: int, max_share: float) -> bool:
    return not found or found / compared <= (_LONE if found == 1 else 1) * max_share


@dataclass(frozen=True)
class RelativeErrors:
    """What rule "relative" measured: `beyond` of the `compared` elements have an error above `rtol`.

    `largest` is the largest error: infinite where only one side is NaN or infinite, or where 0 is expected and
    another number came. `where` is the index of the first element with it; None if all are equal.
    """

    compared: int
    beyond: int
    largest: float
    where: tuple[int, ...] | None
    rtol: float

    @property
    def ok(self) -> bool:
        """No element is beyond."""
        return self.beyond == 0

    def __str__(self) -> str:
        text = (
            f"largest relative error {self.largest:.3g}, allowed {self.rtol:.3g}; {self.beyond} of {self.compared} "
            f"elements beyond"
        )
        return text if self.where is None else f"{text}; largest at {list(self.where)}"


@dataclass(frozen=True)
class ScaledErrors:
    """What rule "mx" measured: `beyond` of the `compared` products have an error above `rtol`.

    `apart` counts those that are more than `max_steps` apart, or NaN with other bytes. Of the `scales`, one for each 32
    products, `equal_scales` are equal bytes, which decides nothing. `where` is the index of the first product farthest
    apart in steps; None if all are equal.
    """

    compared: int
    beyond: int
    apart: int
    scales: int
    equal_scales: int
    where: tuple[int, ...] | None
    max_steps: int
    rtol: float
    max_share: float

    @property
    def ok(self) -> bool:
        """None are apart, and few beyond: a share of at most `max_share`, a single one up to ten times that."""
        return not self.apart and _few(self.beyond, self.compared, self.max_share)

    def __str__(self) -> str:
        share = self.beyond / self.compared if self.compared else 0
        rate = self.equal_scales / self.scales if self.scales else 1
        text = (
            f"{share:.4%} of {self.compared} products beyond a relative error of {self.rtol:.3g}, allowed "
            f"{self.max_share:.4%}; more than {_steps(self.max_steps)} apart: {self.apart}; scale bytes equal: "
            f"{self.equal_scales} of {self.scales} ({rate:.2%})"
        )
        return text if self.where is None else f"{text}; farthest apart at {list(self.where)}"


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`. True exactly when `ok`.

    Kinds of rows without `before`: equal, different. With it: right, missing (should have changed, did not), wrong
    (should have changed, became something else), stray (should not have changed, did), untouched. With a tolerant
    rule, equal and right rows are those that the rule accepts, and `elements` says what it measured; without
    `before` on all elements, else on the rows that should have changed.
    """

    rule: str
    shape: tuple[int, ...]
    dtype: str
    groups: tuple[RowGroup, ...]
    elements: CodeSteps | RelativeErrors | ScaledErrors | None = None

    @property
    def ok(self) -> bool:
        """No row is different, missing, wrong or stray, and the elements are as the rule wants them."""
        rows = all(group.kind in _GOOD for group in self.groups if group.count)
        return rows and (self.elements is None or self.elements.ok)

    def __bool__(self) -> bool:
        return self.ok

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each kind."""
        return {group.kind: group.count for group in self.groups}

    @property
    def first(self) -> dict[str, Row]:
        """The first row of each kind that occurs."""
        return {group.kind: group.first for group in self.groups if group.first is not None}

    def summary(self) -> str:
        """One line of counts; one of elements with a tolerant rule; one for each kind of fault, with the first row."""
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        lines = [f"{self.rule}: {'ok' if self.ok else 'NOT ok'}; rows of {self.dtype} {list(self.shape)}: {counts}"]
        lines += [] if self.elements is None else [f"  {self.elements}"]
        lines += [f"  first {kind}: {row}" for kind, row in self.first.items() if kind not in _GOOD]
        return "\n".join(lines)
