# SPDX-License-Identifier: Apache-2.0
"""Attributes and values that the fused operator leaves undefined, or refuses; the oracle has no answer to them."""

from collections.abc import Iterable, Sequence

import numpy as np

from .arguments import Array, refuse_duplicates

_LAYOUT_PAIRS = (("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD"))


def check_head_nums(head_nums: Sequence[int] | Array) -> tuple[int, int, int]:
    """Nq, Nk and Nv. Raises TypeError for what are no integers, ValueError unless they are three, > 0, and Nk = Nv."""
    if not isinstance(head_nums, Iterable):
        raise TypeError(f"head_nums: expected a sequence of integers, got {type(head_nums).__name__}")
    counts = list(head_nums)
    for count in counts:
        if not isinstance(count, int | np.integer) or isinstance(count, bool):
            raise TypeError(f"head_nums: expected integers, got {count!r} of type {type(count).__name__}")
    if len(counts) != 3 or min(counts) <= 0 or counts[1] != counts[2]:
        raise ValueError(f"head_nums: expected three counts Nq, Nk, Nv above 0 with Nk = Nv, got {counts}")
    nq, nk, nv = map(int, counts)
    return nq, nk, nv


def check_layouts(layout_qkv: str | None, layout_q_out: str | None) -> tuple[str, str]:
    """The two layouts; None and "" stand for "TND" and for "NTD". Raises ValueError for any other pair."""
    pair = layout_qkv or "TND", layout_q_out or "NTD"
    if pair not in _LAYOUT_PAIRS:
        allowed = ", ".join(f"{a!r} with {b!r}" for a, b in _LAYOUT_PAIRS)
        raise ValueError(f"layout_qkv and layout_q_out: expected {allowed}, got {pair[0]!r} with {pair[1]!r}")
    return pair


def check_epsilon(epsilon: float) -> np.float32:
    """Epsilon in float32, as the operator takes it. Raises TypeError, or ValueError unless finite and not negative."""
    if not isinstance(epsilon, int | float | np.integer | np.floating) or isinstance(epsilon, bool):
        raise TypeError(f"epsilon: expected a number, got {type(epsilon).__name__}")
    with np.errstate(all="ignore"):
        eps: np.float32 = np.float32(min(epsilon, 1e300))  # an integer may be too large for any float
    if not (np.isfinite(eps) and epsilon >= 0):
        raise ValueError(f"epsilon: expected a finite float32 that is not negative, got {epsilon!r}")
    return eps


def check_slots(slots: Array, blocks: int, block_size: int) -> None:
    """Raises ValueError for a slot outside the cache, negative ones included, and for duplicates."""
    limit = blocks * block_size
    if slots.min() < 0 or slots.max() >= limit:
        row = int(np.flatnonzero((slots < 0) | (slots >= limit))[0])
        slot = int(slots[row])
        block, offset = divmod(slot, block_size)
        raise ValueError(
            f"slot_mapping: row {row} holds slot {slot} (block {block} of {blocks}, offset {offset}), allowed are "
            f"0..{limit - 1}; the operator skips no row, it would write outside the cache"
        )
    refuse_duplicates(range(slots.size), slots, blocks, block_size)


def check_batches(query_start_loc: Array, seq_lens: Array, tokens: int, table_rows: int) -> None:
    """Raises ValueError unless the batches cover the tokens in order and all their positions are in the table."""
    starts, lengths = np.asarray(query_start_loc, np.int64), np.asarray(seq_lens, np.int64)
    if starts.size != lengths.size + 1:
        raise ValueError(
            f"seq_lens: expected one entry a batch, {starts.size - 1} since query_start_loc has {starts.size}, "
            f"got {lengths.size}"
        )
    if starts[0] != 0:
        raise ValueError(f"query_start_loc: batch 0 starts at token {starts[0]}, expected 0")
    counts = np.diff(starts)
    if (batch := _first(counts < 0)) is not None:
        raise ValueError(
            f"query_start_loc: batch {batch} starts at token {starts[batch]} and ends at {starts[batch + 1]}; "
            f"expected entries that never fall"
        )
    if starts[-1] != tokens:
        raise ValueError(f"query_start_loc: batch {counts.size - 1} ends at token {starts[-1]}, expected T = {tokens}")
    if (batch := _first(lengths < counts)) is not None:
        raise ValueError(
            f"seq_lens: batch {batch} has length {lengths[batch]}, expected at least its {counts[batch]} tokens of "
            f"this call"
        )
    if (batch := _first((counts > 0) & (lengths > table_rows))) is not None:
        raise ValueError(
            f"seq_lens: batch {batch} has length {lengths[batch]}, so that position {lengths[batch] - 1} is reached; "
            f"cos_sin has rows 0..{table_rows - 1}"
        )


def _first(mask: Array) -> int | None:
    return int(mask.argmax()) if mask.any() else None
