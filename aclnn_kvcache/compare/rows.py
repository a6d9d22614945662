# SPDX-License-Identifier: Apache-2.0
"""Rows of two or three arrays, sorted by what a rule says of them, a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from aclnn_kvcache.compare.report import WITH_BEFORE, WITHOUT_BEFORE, Row
from aclnn_kvcache.compare.rules import Array, Exact, Index, Mask, Rule, Tolerant

# Elements looked at together: float64 copies of this size keep the temporaries below 64 MiB even for rows of one
# element.
_BLOCK = 1 << 19
_BYTES_SHOWN = 8
_EXACT = Exact()

Block = tuple[slice, ...]


def blocks(shape: Index) -> Iterator[Block]:
    """Slices of leading axes that cover all rows in order, each time as many rows as fit into a block, at least one."""
    if prod(shape) == 0:
        return
    if len(shape) == 1:
        yield ()
        return
    inner = prod(shape[1:])
    if inner > _BLOCK:
        for i in range(shape[0]):
            for block in blocks(shape[1:]):
                yield slice(i, i + 1), *block
    else:
        step = _BLOCK // inner
        for i in range(0, shape[0], step):
            yield (slice(i, i + step),)


def place(block: Block, rows: Index, number: int) -> Index:
    """The index in the whole array of a row, numbered within a block of rows of that shape."""
    inside = np.unravel_index(number, rows)
    corner = [axis.start for axis in block] + [0] * (len(inside) - len(block))
    return tuple(start + int(i) for start, i in zip(corner, inside, strict=True))


def sort_rows(rule: Rule, actual: Array, expected: Array, before: Array | None = None) -> dict[str, Mask]:
    """The rows of a block by kind."""
    accepted = _rows_agree(rule, actual, expected)
    if before is None:
        return dict(zip(WITHOUT_BEFORE, (accepted, ~accepted), strict=True))
    must_change = ~_rows_agree(_EXACT, expected, before)
    kept = _rows_agree(_EXACT, actual, before)
    failed = must_change & ~accepted
    masks = (must_change & accepted, failed & kept, failed & ~kept, ~must_change & ~kept, ~must_change & kept)
    return dict(zip(WITH_BEFORE, masks, strict=True))


def describe_row(rule: Rule, index: Index, actual: Array, expected: Array) -> Row:
    position = 0
    for piece in _pieces(actual.size):
        differs = ~rule.accepts(actual[piece], expected[piece])
        if differs.any():
            position = piece.start + int(differs.argmax())
            break
    shown = slice(position, position + max(1, _BYTES_SHOWN // actual.itemsize))
    return Row(index, position, actual[shown].tobytes(), expected[shown].tobytes())


class Worst:
    """Lets a rule measure rows, and remembers the first element with the largest error above 0."""

    def __init__(self, rule: Tolerant) -> None:
        self._rule = rule
        self._largest = 0.0
        self.where: Index | None = None

    def measure(self, block: Block, chosen: Mask, actual: Array, expected: Array) -> None:
        for piece in _pieces(actual.shape[-1]):
            errors = self._rule.measure(actual[..., piece][chosen], expected[..., piece][chosen])
            if errors.size == 0 or errors.max() <= self._largest:
                continue
            number, position = (int(i) for i in np.unravel_index(errors.argmax(), errors.shape))
            self._largest = float(errors[number, position])
            row = place(block, np.shape(chosen), int(np.flatnonzero(chosen)[number]))
            self.where = (*row, piece.start + position)


def _rows_agree(rule: Rule, actual: Array, expected: Array) -> Mask:
    agree = np.ones(actual.shape[:-1], np.bool_)
    for piece in _pieces(actual.shape[-1]):
        agree &= rule.accepts(actual[..., piece], expected[..., piece]).all(axis=-1)
    return agree


def _pieces(length: int) -> Iterator[slice]:
    """A single row may be longer than a block: the base of a cache seen as one flat array is."""
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))
