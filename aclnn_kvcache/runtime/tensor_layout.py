# SPDX-License-Identifier: Apache-2.0
"""How a tensor lies in its buffer: one object for each way, with everything that follows from it ready to use."""

from __future__ import annotations

import ctypes
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from aclnn_kvcache import layout
from aclnn_kvcache.dtypes import BY_DTYPE
from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.rules.finding import ND, TensorSpec


class TensorLayout:
    """Compared by identity: calls repeat their layouts, and looking up an object by its identity costs little."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], offset: int, nbytes: int
    ) -> None:
        """``strides`` and ``offset`` in bytes; ``nbytes`` is the size of the buffer."""
        self.shape, self.dtype, self.strides, self.offset, self.nbytes = shape, dtype, strides, offset, nbytes

    @cached_property
    def spec(self) -> TensorSpec:
        """The tensor as the rules see it. Made past the constructor, which checks what an array cannot get wrong."""
        size = self.dtype.itemsize
        steps = layout.canonical_strides(self.shape, [stride // size for stride in self.strides])
        return TensorSpec._make((self.shape, self.dtype, steps, self.offset // size, self.nbytes // size, ND))

    @cached_property
    def span(self) -> tuple[int, int]:
        """First byte used, and one past the last, from the start of the buffer; equal for an empty tensor."""
        low, high = layout.bounds(self.shape, self.strides, self.offset)
        return (low, high - 1 + self.dtype.itemsize) if low != high else (low, low)

    @cached_property
    def create_arguments(self) -> tuple[Any, ...]:
        """The arguments of aclCreateTensor in front of the address.

        Raises ArgumentError for a tensor that reaches outside its buffer: aclCreateTensor would take it.
        """
        itemsize = self.dtype.itemsize
        for what, value in (("offset", self.offset), *(("stride", stride) for stride in self.strides)):
            if value % itemsize:
                raise ArgumentError(what, f"a multiple of the item size of {itemsize} bytes", f"{value} bytes")
        shape, steps, start, storage = self.shape, self.spec.strides, self.spec.offset, self.spec.storage
        if self.spec.is_outside:
            low, high = self.spec.reach
            raise ArgumentError(
                "array",
                f"every element inside its memory of {storage} elements",
                f"elements {low} to {high - 1} (shape {list(shape)}, strides {list(steps)} from element {start})",
            )
        if any(stride < 0 for stride in steps):
            raise ArgumentError("array", "strides that are not negative", f"{list(steps)}", "CANN defines no others")
        dims, storage_dims = ctypes.c_int64 * len(shape), (ctypes.c_int64 * 1)(storage)
        acl_dtype = BY_DTYPE[self.dtype].acl_value
        return dims(*shape), len(shape), acl_dtype, dims(*steps), start, ND, storage_dims, 1


@lru_cache(maxsize=4096)
def tensor_layout(
    shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...], offset: int, nbytes: int
) -> TensorLayout:
    """The one object of this layout, or another equal one where thousands came in between."""
    return TensorLayout(shape, dtype, strides, offset, nbytes)
