# SPDX-License-Identifier: Apache-2.0
"""The row of the table of cosines and sines for each token, or for each token and lane."""

from collections.abc import Callable, Sequence

import numpy as np

from .arguments import Array
from .qkv_rows import HALF

Lookup = Callable[[slice], Array]
"""Cosines and sines [T, 128] of a chunk of tokens."""


def by_batches(cos_sin: Array, query_start_loc: Array, seq_lens: Array) -> Lookup:
    """One position a token: its place in its batch, behind the batch's history."""
    starts, lengths = np.asarray(query_start_loc, np.int64), np.asarray(seq_lens, np.int64)

    def lookup(chunk: slice) -> Array:
        tokens = np.arange(chunk.start, chunk.stop)
        # The last batch that starts at or before the token: batches without tokens start where the next one does.
        batch = np.searchsorted(starts[:-1], tokens, side="right") - 1
        # Counted from the batch's end, which is history plus tokens.
        rows: Array = cos_sin[lengths[batch] - (starts[batch + 1] - tokens)]
        return rows

    return lookup


def by_axes(cos_sin: Array, mrope_position: Array, section: Sequence[int]) -> Lookup:
    """Three positions a token; `lane_axes` says which of them a lane takes, for its cosine and for its sine."""
    axes = np.tile(lane_axes(section), 2)
    columns = np.arange(2 * HALF)

    def lookup(chunk: slice) -> Array:
        rows: Array = cos_sin[mrope_position[chunk][:, axes], columns]
        return rows

    return lookup


def lane_axes(section: Sequence[int]) -> Array:
    """For each of 64 lanes the axis of its position: 0 time, 1 height, 2 width.

    Interleaved: of every three lanes the second takes the height and the third the width, as long as there are fewer of
    them before than the section says; all others take the time, whose own number does not matter.
    """
    third, axis = np.divmod(np.arange(HALF), 3)
    limits = np.array([0, section[1], section[2]])
    return np.where(third < limits[axis], axis, 0)
