# SPDX-License-Identifier: Apache-2.0
"""Rows of tokens on their way into a paged cache."""

import numpy as np

from .arguments import Array, as_bits


def dense_copy(cache: Array) -> Array:
    """A new array with the same bytes, NaN payloads included."""
    return np.array(as_bits(cache), order="C").view(cache.dtype)


def row_numbers(slots: Array, heads: int, block_size: int) -> Array:
    """[T, N]: where the rows of each token and head are, counted through a cache [B, N, S, D] of such blocks."""
    block, offset = np.divmod(slots.astype(np.intp), block_size)
    first: Array = block * (heads * block_size) + offset
    return first[:, np.newaxis] + np.arange(heads) * block_size


def write_rows(cache: Array, numbers: Array, rows: Array) -> None:
    """Put each of the rows [T, N, D] where `row_numbers` says; all of them at once.

    cache: dense [B, N, S, D], of the dtype of the rows.
    """
    if rows.size == 0:
        return
    # A row as one element: NumPy moves it by one memcpy.
    row = np.dtype((np.void, rows.shape[-1] * rows.itemsize))
    cache.reshape(-1, rows.shape[-1]).view(row)[numbers, 0] = np.ascontiguousarray(as_bits(rows)).view(row)[..., 0]
