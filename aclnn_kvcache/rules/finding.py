# SPDX-License-Identifier: Apache-2.0
"""What a rule looks at, and what it finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import DTYPES, FORMATS, AnyDtype, dtype_of, format_of, like
from aclnn_kvcache.errors import ArgumentError

ND = 2


class _TensorSpec(NamedTuple):
    shape: tuple[int, ...]
    dtype: AnyDtype
    strides: tuple[int, ...]
    offset: int
    storage: int
    format: int


class TensorSpec(_TensorSpec):
    """A tensor without its values: what ``check_call`` takes where there is no array.

    ``shape``: extents. ``dtype``: a NumPy dtype, or a name, NumPy's or CANN's ("bfloat16", "BF16", "ACL_BF16").
    ``strides``: one per axis, in elements; dense if None. ``offset``: of the first element in its allocation, in
    elements. ``storage``: how many elements the allocation has, as a number or as dimensions; those of the shape if
    None. ``format``: CANN's aclFormat, by number or name ("ND", "FRACTAL_NZ").

    Negative extents, strides and offsets are taken, as CANN takes them: the rules speak of them.
    Raises ArgumentError for what is none of this.
    """

    __slots__ = ()

    def __new__(
        cls,
        shape: int | Sequence[int],
        dtype: Any,
        strides: Sequence[int] | None = None,
        offset: int = 0,
        storage: int | Sequence[int] | None = None,
        format: int | str = ND,
    ) -> TensorSpec:
        extents = _integers("shape", shape)
        steps = layout.dense_strides(extents) if strides is None else _integers("strides", strides)
        if len(steps) != len(extents):
            action = "give strides that go with the shape, or None for a dense tensor"
            raise ArgumentError("strides", f"{len(extents)} element counts, one per axis", repr(strides), action)
        try:
            kind = dtype_of(dtype)
        except TypeError as error:
            expected = f"a NumPy dtype, its name, or one of {', '.join(DTYPES)}"
            raise ArgumentError("dtype", expected, repr(dtype), like(dtype, DTYPES)) from error
        try:
            number = format_of(format)
        except TypeError as error:
            expected = f"an aclFormat as a number, or one of {', '.join(FORMATS)}"
            raise ArgumentError("format", expected, repr(format), like(format, FORMATS)) from error
        elements = math.prod(extents) if storage is None else math.prod(_integers("storage", storage))
        (start,) = _integers("offset", offset)
        return cls._make((extents, kind, steps, start, elements, number))

    def _replace(self, **changes: Any) -> TensorSpec:
        """Another one with these changes, as sound as this. Raises ArgumentError."""
        return TensorSpec(**{**self._asdict(), **changes})

    @property
    def is_empty(self) -> bool:
        return 0 in self.shape

    @property
    def is_contiguous(self) -> bool:
        return layout.is_contiguous(self.shape, self.strides)

    @property
    def reach(self) -> tuple[int, int]:
        """First element touched, and one past the last."""
        return layout.bounds(self.shape, self.strides, self.offset)

    @property
    def is_outside(self) -> bool:
        """Whether an element lies outside the allocation."""
        low, high = self.reach
        return min(self.shape, default=1) > 0 and (low < 0 or high > self.storage)


@lru_cache(maxsize=1024)
def dense_spec(shape: tuple[int, ...], dtype: AnyDtype) -> TensorSpec:
    """A dense tensor with an allocation of its own, made past the constructor: there is nothing to check."""
    return TensorSpec._make((shape, dtype, layout.dense_strides(shape), 0, math.prod(shape), ND))


class Finding(NamedTuple):
    """One broken rule.

    ``rule`` is its id in the operator's table; ``arguments`` the parameters concerned, under this package's names;
    ``message`` says what was expected, what came and what to do. ``status`` is what CANN's phase 1 answers to it, 0
    where CANN does not check; ``ez`` the code in CANN's message, if there is one.
    """

    rule: str
    arguments: tuple[str, ...]
    message: str
    status: int = 0
    ez: str | None = None


def _integers(argument: str, values: object) -> tuple[int, ...]:
    parts = [values] if isinstance(values, (int, np.integer)) else values
    if not isinstance(parts, Sequence) or not all(
        isinstance(part, (int, np.integer)) and not isinstance(part, bool) for part in parts
    ):
        raise ArgumentError(argument, "an integer or a sequence of integers", repr(values))
    return tuple(int(part) for part in parts)
