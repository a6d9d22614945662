# SPDX-License-Identifier: Apache-2.0
"""What a rule looks at, and what it finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache import layout

ND = 2


class TensorSpec(NamedTuple):
    """A tensor without its values. ``strides`` and ``offset`` count elements; ``storage`` is the number of elements
    of the allocation behind it; ``format`` is CANN's aclFormat."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    offset: int
    storage: int
    format: int = ND

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
        return not self.is_empty and (low < 0 or high > self.storage)


class Finding(NamedTuple):
    """One broken rule.

    ``status`` is what CANN's phase 1 answers to it, 0 where CANN does not check; ``ez`` the code in CANN's message, if
    there is one; ``arguments`` the parameters concerned, under this package's names.
    """

    rule: str
    arguments: tuple[str, ...]
    message: str
    status: int = 0
    ez: str | None = None
