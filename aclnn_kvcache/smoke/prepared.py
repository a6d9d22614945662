# SPDX-License-Identifier: Apache-2.0
"""What the runner needs of a case: storage arrays, where in them each argument lies, and what must come out.

Views are made by indexing and transposing only, which NumPy arrays and device arrays share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

Arrays = dict[str, np.ndarray[Any, Any]]
Shape = tuple[int, ...]


class Placed(NamedTuple):
    """``base``: the name of the storage array (shared by arguments that lie in one) and its shape by the argument's."""

    base: str
    shape: Callable[[Shape], Shape]
    view: Callable[[Any], Any]


class Prepared(NamedTuple):
    before: Arrays
    """The storage arrays as they are before the call."""
    places: Mapping[str, Placed]
    """Where each argument lies."""
    options: Mapping[str, Any]
    expected: Arrays
    """The storage arrays as they must be after it, and what it must return."""
    returned: tuple[str, ...] = ()
    """Names in ``expected`` of what the call returns."""
    rules: Mapping[str, str] = {}
    """The comparison rule of an array, where it is not "exact"."""
    scales: Mapping[str, str] = {}
    """The array with the scales of one whose rule is "mx"."""
    note: str = ""
    """What a reader of the result should know, such as rows that are not finite."""

    def arguments(self, bases: Mapping[str, Any]) -> dict[str, Any]:
        return {name: place.view(bases[place.base]) for name, place in self.places.items()}

    def gaps(self, base: str) -> np.ndarray[Any, Any]:
        """True where no argument's view of the storage array reaches."""
        outside = np.ones(self.before[base].shape, bool)
        for place in self.places.values():
            if place.base == base:
                place.view(outside)[...] = False
        return outside


class Case(Protocol):
    """A row of a table of cases."""

    @property
    def about(self) -> str: ...
    @property
    def operator(self) -> str: ...
    @property
    def on_host(self) -> bool: ...
    @property
    def revisions(self) -> str:
        """Letters of the revisions of the fused operator beside which, or on which, the case can run."""

    def prepare(self, rng: np.random.Generator) -> Prepared: ...


def whole(name: str) -> Placed:
    """An argument that is a storage array of its own."""
    return Placed(name, lambda shape: shape, lambda base: base)


def random_bytes(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Every bit pattern of the dtype, NaN included."""
    return rng.integers(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), np.uint8).view(dtype)


def draw_slots(rng: np.random.Generator, tokens: int, limit: int, *, consecutive: bool) -> np.ndarray[Any, Any]:
    """Distinct slots below the limit: drawn, or following one another as in a prefill."""
    if consecutive:
        return np.arange(tokens) + rng.integers(0, limit - tokens + 1)
    return rng.permutation(limit)[:tokens]
