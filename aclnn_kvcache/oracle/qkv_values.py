# SPDX-License-Identifier: Apache-2.0
"""Attributes and values that the fused operator leaves undefined, or refuses; the oracle has no answer to them."""

from collections.abc import Iterable, Sequence

import numpy as np

from .arguments import Array, refuse_duplicates
from .qkv_rows import HALF
from .qkv_scene import LAYOUTS

# Every third lane of a half, and none behind the last third.
_LANES_OF_AN_AXIS = HALF // 3


def check_integers(name: str, values: object) -> list[int]:
    """The integers of any sequence or array of one axis. Raises TypeError for what is none."""
    if not isinstance(values, Iterable):
        raise TypeError(f"{name}: expected a sequence of integers, got {type(values).__name__}")
    numbers = list(values)
    for number in numbers:
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            raise TypeError(f"{name}: expected integers, got {number!r} of type {type(number).__name__}")
    return [int(number) for number in numbers]


def check_head_nums(head_nums: Sequence[int] | Array, q_per_k: int | None = None) -> tuple[int, int, int]:
    """Nq, Nk and Nv. Raises TypeError for what are no integers, ValueError unless they are three, > 0, and Nk = Nv.

    Where q_per_k is given Nq has to be that many times Nk.
    """
    counts = check_integers("head_nums", head_nums)
    if len(counts) != 3 or min(counts) <= 0 or counts[1] != counts[2]:
        raise ValueError(f"head_nums: expected three counts Nq, Nk, Nv above 0 with Nk = Nv, got {counts}")
    nq, nk, nv = counts
    if q_per_k is not None and nq != q_per_k * nk:
        raise ValueError(f"head_nums: expected Nq = {q_per_k} * Nk in this scene, got {counts}")
    return nq, nk, nv


def check_layouts(
    layout_qkv: str | None, layout_q_out: str | None, pairs: tuple[tuple[str, str], ...] = LAYOUTS
) -> tuple[str, str]:
    """The two layouts; None and "" stand for "TND" and for "NTD". Raises ValueError for any other than the pairs."""
    pair = layout_qkv or "TND", layout_q_out or "NTD"
    if pair not in pairs:
        allowed = ", ".join(f"{a!r} with {b!r}" for a, b in pairs)
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


def check_section(mrope_section: Sequence[int] | Array) -> tuple[int, int, int]:
    """The section [t, h, w]. Raises TypeError for what are no integers, ValueError for lanes that there are not."""
    section = check_integers("mrope_section", mrope_section)
    if len(section) != 3 or min(section) < 0 or max(section[1:]) > _LANES_OF_AN_AXIS or sum(section) > HALF:
        raise ValueError(
            f"mrope_section: expected three counts of lanes [t, h, w] from 0 on, h and w at most {_LANES_OF_AN_AXIS}, "
            f"of a sum of at most {HALF}, got {section}"
        )
    t, h, w = section
    return t, h, w


def check_positions(mrope_position: Array, table_rows: int) -> None:
    """Raises ValueError for a position that is no row of the table."""
    outside = (mrope_position < 0) | (mrope_position >= table_rows)
    if (place := _first(outside.ravel())) is not None:
        token, axis = divmod(place, 3)
        raise ValueError(
            f"mrope_position: token {token} holds {mrope_position[token, axis]} on axis {'THW'[axis]}; cos_sin has "
            f"rows 0..{table_rows - 1}"
        )


def _first(mask: Array) -> int | None:
    return int(mask.argmax()) if mask.any() else None
