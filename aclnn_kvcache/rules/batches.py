# SPDX-License-Identifier: Apache-2.0
"""Rules about how tokens are cut into batches, and about the positions that follow; CANN looks at no value.

Batch b holds tokens query_start_loc[b] up to query_start_loc[b + 1]; the last of them is at position seq_lens[b] - 1 of
the table of cosines and sines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from aclnn_kvcache.rules.rule import Call, Rule, Unanswerable

Ints = np.ndarray[Any, Any]

SOURCE = "the kernel takes positions from query_start_loc and seq_lens unchecked"


def batch_rules(tokens: Callable[[Call], int]) -> Iterator[Rule]:
    """``tokens`` counts those of a call."""
    starts, lengths = ("query_start_loc",), ("seq_lens", "query_start_loc")
    yield Rule("query_start", starts, "query_start_loc must start at 0", SOURCE, _start)
    yield Rule("query_order", starts, "query_start_loc must never fall", SOURCE, _order)
    expected = "query_start_loc must end at the number of tokens"
    yield Rule("query_end", starts, expected, SOURCE, partial(_end, tokens))
    expected = "seq_lens must count a batch's history and its tokens"
    yield Rule("seq_lens", lengths, expected, SOURCE, _lengths)
    expected = "cos_sin must have a row for every position"
    yield Rule("position", ("seq_lens", "cos_sin"), expected, "the kernel reads the table unchecked", _positions)


def _starts(call: Call) -> Ints:
    starts = call.value("query_start_loc").astype(np.int64)
    if starts.size < 2:
        raise Unanswerable
    return starts


def _batches(call: Call) -> tuple[Ints, Ints]:
    """Tokens of this call and whole length of each batch."""
    counts, lengths = np.diff(_starts(call)), call.value("seq_lens").astype(np.int64)
    if counts.size != lengths.size or counts.min() < 0:
        raise Unanswerable
    return counts, lengths


def _start(call: Call) -> Iterator[str]:
    starts = _starts(call)
    if starts[0] != 0:
        yield f"query_start_loc must start at 0, got {starts[0]}; tokens before it would get their index as position"


def _order(call: Call) -> Iterator[str]:
    starts = _starts(call)
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if falls.size:
        batch = int(falls[0])
        yield (
            f"query_start_loc must never fall, but batch {batch} starts at token {starts[batch]} and ends at "
            f"{starts[batch + 1]}{_more(falls)}; positions would be wrong"
        )


def _end(tokens: Callable[[Call], int], call: Call) -> Iterator[str]:
    starts, count = _starts(call), tokens(call)
    if starts[-1] != count:
        yield f"query_start_loc must end at the number of tokens, {count}, got {starts[-1]}"


def _lengths(call: Call) -> Iterator[str]:
    counts, lengths = _batches(call)
    short = np.flatnonzero(lengths < counts)
    if short.size:
        batch = int(short[0])
        yield (
            f"seq_lens must count a batch's history and its tokens, but batch {batch} has {lengths[batch]} with "
            f"{counts[batch]} tokens in this call{_more(short)}"
        )


def _positions(call: Call) -> Iterator[str]:
    counts, lengths = _batches(call)
    rows, _ = call.shape("cos_sin", 2)
    behind = np.flatnonzero((counts > 0) & (lengths > rows))
    if behind.size:
        batch = int(behind[0])
        yield (
            f"seq_lens of batch {batch}, {lengths[batch]}, puts its last token at position {lengths[batch] - 1}, but "
            f"cos_sin has rows 0..{rows - 1}{_more(behind)}; pass a table with a row for every position"
        )


def _more(batches: Ints) -> str:
    return f" ({batches.size} batches do)" if batches.size > 1 else ""
