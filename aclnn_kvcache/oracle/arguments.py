# SPDX-License-Identifier: Apache-2.0
"""What every oracle asks of its arguments: arrays, of these dtypes and shapes, and slots that differ."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Argument(NamedTuple):
    """`axes` names the extents, separated by spaces; a number stands for itself."""

    axes: str
    dtypes: tuple[np.dtype[Any], ...]


def check_arrays(
    arguments: Mapping[str, Array], table: Mapping[str, Argument], known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Check dtype, rank and shape of each argument in the table's order; the extents by axis name.

    An axis name stands for the extent in `known`, else for the one found where it comes first.
    Raises TypeError for what is no array and for a dtype, ValueError for a shape.
    """
    extents = dict(known or {})
    for name, (axes, dtypes) in table.items():
        array = arguments[name]
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{name}: expected a NumPy array, got {type(array).__name__}")
        if array.dtype not in dtypes:
            raise TypeError(f"{name}: expected {' or '.join(map(str, dtypes))}, got {array.dtype}{_hint(dtypes[0])}")

        names = axes.split()
        layout = f"[{', '.join(names)}]"
        if array.ndim != len(names):
            raise ValueError(f"{name}: expected {len(names)} axes {layout}, got shape {array.shape}")
        expected = tuple(
            int(axis) if axis.isdigit() else extents.setdefault(axis, extent)
            for axis, extent in zip(names, array.shape, strict=True)
        )
        if array.shape != expected:
            raise ValueError(f"{name}: expected shape {layout} = {expected}, got {array.shape}")
    return extents


def refuse_duplicates(rows: Sequence[int] | Array, slots: Array, blocks: int, block_size: int) -> None:
    """Raise ValueError where two of the slots, which belong to these rows of slot_mapping, are equal."""
    ordered = np.sort(slots)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    order = np.argsort(slots, kind="stable")
    repeats = np.flatnonzero(np.diff(slots[order]) == 0)
    # A stable order keeps rows of one slot ascending: the earliest row that repeats a slot follows its first one.
    earliest = repeats[np.argmin(order[repeats + 1])]
    first, second = order[earliest], order[earliest + 1]
    block, offset = divmod(int(slots[first]), block_size)
    raise ValueError(
        f"slot_mapping: rows {rows[first]} and {rows[second]} both hold slot {slots[first]} "
        f"(block {block} of {blocks}, offset {offset}); the device's answer to duplicates is undefined"
    )


def as_bits(array: Array) -> Array:
    """The same memory as unsigned integers, so that no conversion can touch a NaN."""
    return np.asarray(array).view(f"u{array.itemsize}")


def _hint(dtype: np.dtype[Any]) -> str:
    if not hasattr(ml_dtypes, dtype.name):
        return ""
    return f"; raw bytes become {'FP8' if dtype.itemsize == 1 else 'BF16'} by .view(ml_dtypes.{dtype.name})"
