# SPDX-License-Identifier: Apache-2.0
"""Compare arrays row by row and say what differs, where, and in which way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Mask = NDArray[np.bool_]
Rule = Callable[[Array, Array], Mask]

# Elements looked at together: masks of this size keep the temporaries far below 64 MiB even for rows of one element.
_BLOCK = 1 << 22
_BYTES_SHOWN = 8

_WITHOUT_BEFORE = ("equal", "different")
_WITH_BEFORE = ("right", "missing", "wrong", "stray", "untouched")
_GOOD = frozenset({"equal", "right", "untouched"})


def _same_bytes(actual: Array, expected: Array) -> Mask:
    """Per element: every byte is equal. NaN equals itself, -0 differs from +0."""
    size = actual.dtype.itemsize
    # NumPy compares plain void elements byte by byte too, but slowly.
    bits = f"u{size}" if size in (1, 2, 4, 8) else f"V{size}"
    same: Mask = actual.view(bits) == expected.view(bits)
    return same


# By name: for each element of two arrays of one shape and dtype, whether the actual one will do.
_RULES: dict[str, Rule] = {"exact": _same_bytes}


@dataclass(frozen=True)
class Row:
    """One row of a group: `actual` and `expected` hold the bytes, in memory order, from the first element that differs.

    `index` is the row's index on all axes but the last, `position` that of the element on the last axis. Where
    nothing differs, `position` is 0.
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
class Comparison:
    """The result of `compare`. True exactly when `ok`.

    Kinds of rows without `before`: equal, different. With it: right, missing (should have changed, did not), wrong
    (should have changed, became something else), stray (should not have changed, did), untouched.
    """

    rule: str
    shape: tuple[int, ...]
    dtype: str
    groups: tuple[RowGroup, ...]

    @property
    def ok(self) -> bool:
        """No row is different, missing, wrong or stray."""
        return all(group.kind in _GOOD for group in self.groups if group.count)

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
        """One line of counts; one more for each kind of fault, with the first such row."""
        counts = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        lines = [f"{self.rule}: {'ok' if self.ok else 'NOT ok'}; rows of {self.dtype} {list(self.shape)}: {counts}"]
        lines += [f"  first {kind}: {row}" for kind, row in self.first.items() if kind not in _GOOD]
        return "\n".join(lines)


def compare(actual: Array, expected: Array, rule: str = "exact", *, before: Array | None = None) -> Comparison:
    """Compare two arrays of one shape and dtype row by row, a row being the last axis.

    Any shape (0-d and 1-d arrays are one row, empty ones have none), any strides, any dtype without objects. To see
    the gaps between the rows of a padded view, pass the base arrays.

    rule: "exact" (every byte equal). before: the array as it was before the call; then the report tells rows that
    should have changed from rows that should not, and the latter must have kept every byte, whatever the rule.

    Raises TypeError for what is no NumPy array, for different dtypes and for objects; ValueError for different shapes
    and for a rule that does not exist.
    """
    if rule not in _RULES:
        raise ValueError(f"rule: expected one of {', '.join(map(repr, _RULES))}, got {rule!r}")
    arrays = {"expected": expected, "actual": actual} | ({} if before is None else {"before": before})
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name}: expected a NumPy array, got {type(array).__name__}")
        if array.dtype.hasobject:
            raise TypeError(f"{name}: expected a dtype made of bytes, got {array.dtype}")
        if array.dtype != expected.dtype:
            raise TypeError(f"{name}: expected dtype {expected.dtype} as expected has, got {array.dtype}")
        if array.shape != expected.shape:
            raise ValueError(f"{name}: expected shape {expected.shape} as expected has, got {array.shape}")

    accepts = _RULES[rule]
    rows = [np.atleast_1d(np.asarray(array)) for array in (actual, expected, before) if array is not None]
    counts = dict.fromkeys(_WITHOUT_BEFORE if before is None else _WITH_BEFORE, 0)
    first: dict[str, Row] = {}
    for block in _blocks(rows[0].shape):
        for kind, members in _sort_rows(accepts, *(array[block] for array in rows)).items():
            counts[kind] += int(np.count_nonzero(members))
            if kind not in first and members.any():
                inside = np.unravel_index(int(members.argmax()), members.shape)
                corner = [axis.start for axis in block] + [0] * (len(inside) - len(block))
                index = tuple(start + int(i) for start, i in zip(corner, inside, strict=True))
                first[kind] = _describe_row(accepts, index, rows[0][index], rows[1][index])
    groups = tuple(RowGroup(kind, count, first.get(kind)) for kind, count in counts.items())
    return Comparison(rule, actual.shape, str(actual.dtype), groups)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Slices of leading axes that cover all rows in order, each time as many rows as fit into a block, at least one."""
    if prod(shape) == 0:
        return
    if len(shape) == 1:
        yield ()
        return
    inner = prod(shape[1:])
    if inner > _BLOCK:
        for i in range(shape[0]):
            for block in _blocks(shape[1:]):
                yield slice(i, i + 1), *block
    else:
        step = _BLOCK // inner
        for i in range(0, shape[0], step):
            yield (slice(i, i + step),)


def _sort_rows(accepts: Rule, actual: Array, expected: Array, before: Array | None = None) -> dict[str, Mask]:
    accepted = _rows_agree(accepts, actual, expected)
    if before is None:
        return dict(zip(_WITHOUT_BEFORE, (accepted, ~accepted), strict=True))
    must_change = ~_rows_agree(_same_bytes, expected, before)
    kept = _rows_agree(_same_bytes, actual, before)
    failed = must_change & ~accepted
    masks = (must_change & accepted, failed & kept, failed & ~kept, ~must_change & ~kept, ~must_change & kept)
    return dict(zip(_WITH_BEFORE, masks, strict=True))


def _rows_agree(accepts: Rule, actual: Array, expected: Array) -> Mask:
    agree = np.ones(actual.shape[:-1], np.bool_)
    for piece in _pieces(actual.shape[-1]):
        agree &= accepts(actual[..., piece], expected[..., piece]).all(axis=-1)
    return agree


def _pieces(length: int) -> Iterator[slice]:
    """A single row may be longer than a block: the base of a cache seen as one flat array is."""
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


def _describe_row(accepts: Rule, index: tuple[int, ...], actual: Array, expected: Array) -> Row:
    position = 0
    for piece in _pieces(actual.size):
        differs = ~accepts(actual[piece], expected[piece])
        if differs.any():
            position = piece.start + int(differs.argmax())
            break
    shown = slice(position, position + max(1, _BYTES_SHOWN // actual.itemsize))
    return Row(index, position, actual[shown].tobytes(), expected[shown].tobytes())
