# SPDX-License-Identifier: Apache-2.0
"""Rules about how tokens are cut into batches, and about the positions that follow; CANN looks at no value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aclnn_kvcache.rules.finding import Finding

Ints = np.ndarray[Any, Any]


def check_batches(query_start_loc: Ints, seq_lens: Ints | None, tokens: int, table_rows: int) -> Iterator[Finding]:
    """Findings for 1-D integer arrays of B + 1 and B entries; without ``seq_lens`` for the starts alone.

    Batch b holds tokens query_start_loc[b] up to query_start_loc[b + 1]; the last of them is at position
    seq_lens[b] - 1 of the table of cosines and sines, which has ``table_rows`` rows.
    """
    starts = query_start_loc.astype(np.int64)
    if starts[0] != 0:
        message = (
            f"query_start_loc must start at 0, got {starts[0]}; tokens before it would get their index as position"
        )
        yield Finding("query_start", ("query_start_loc",), message)
    counts = np.diff(starts)
    falls = np.flatnonzero(counts < 0)
    if falls.size:
        batch = int(falls[0])
        message = (
            f"query_start_loc must never fall, but batch {batch} starts at token {starts[batch]} and ends at "
            f"{starts[batch + 1]}{_more(falls)}; positions would be wrong"
        )
        yield Finding("query_order", ("query_start_loc",), message)
    if starts[-1] != tokens:
        message = f"query_start_loc must end at the number of tokens, {tokens}, got {starts[-1]}"
        yield Finding("query_end", ("query_start_loc",), message)
    if seq_lens is not None and not falls.size:
        yield from _check_lengths(counts, seq_lens.astype(np.int64), table_rows)


def _check_lengths(counts: Ints, lengths: Ints, table_rows: int) -> Iterator[Finding]:
    short = np.flatnonzero(lengths < counts)
    if short.size:
        batch = int(short[0])
        message = (
            f"seq_lens must count a batch's history and its tokens, but batch {batch} has {lengths[batch]} with "
            f"{counts[batch]} tokens in this call{_more(short)}"
        )
        yield Finding("seq_lens", ("seq_lens", "query_start_loc"), message)
    behind = np.flatnonzero((counts > 0) & (lengths > table_rows))
    if behind.size:
        batch = int(behind[0])
        message = (
            f"seq_lens of batch {batch}, {lengths[batch]}, puts its last token at position {lengths[batch] - 1}, but "
            f"cos_sin has rows 0..{table_rows - 1}{_more(behind)}; pass a table with a row for every position"
        )
        yield Finding("position", ("seq_lens", "cos_sin"), message)


def _more(batches: Ints) -> str:
    return f" ({batches.size} batches do)" if batches.size > 1 else ""
