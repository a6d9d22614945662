# SPDX-License-Identifier: Apache-2.0
"""Rules about slot values: each in range, none twice, -1 only where the operator skips it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aclnn_kvcache.rules.finding import Finding

PADDING = -1
PADDING_HINTS = {
    True: 'rows to be left out are -1 and need padding="skip"',
    False: "this operator skips no row, it would write in front of the cache: leave those tokens out of the call",
}


def check_slots(
    slots: np.ndarray[Any, Any], blocks: int, block_size: int, *, skip_padding: bool, can_skip: bool = True
) -> Iterator[Finding]:
    """At most one finding for the range and one for duplicates, each naming rows, values and the limit.

    ``slots`` is 1-D, of any integer dtype; -1 is let through with ``skip_padding``. ``can_skip`` says whether the
    operator could, so that the message recommends it.
    """
    limit = blocks * block_size
    padded = (slots == PADDING) & skip_padding
    inside = (slots >= 0) & (slots < limit)
    bad = np.flatnonzero(~inside & ~padded)
    if bad.size:
        hint = PADDING_HINTS[can_skip]
        yield _out_of_range(int(bad[0]), int(slots[bad[0]]), bad.size, blocks, block_size, hint)
    rows = np.flatnonzero(inside)
    order = np.argsort(slots[rows], kind="stable")
    ordered = slots[rows][order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if twice.size:
        first, second = (int(rows[order[twice[0] + step]]) for step in (0, 1))
        yield _duplicate(first, second, int(ordered[twice[0]]), twice.size, block_size)


def _out_of_range(row: int, slot: int, count: int, blocks: int, block_size: int, padding_hint: str) -> Finding:
    limit = blocks * block_size
    if limit:
        block, offset = divmod(slot, block_size)
        place = f"block {block} of {blocks}, offset {offset} with block size {block_size}"
        allowed = f"allowed are 0..{limit - 1}"
    else:
        place = f"{blocks} blocks of {block_size}"
        allowed = "the cache has no slots"
    more = f" ({count} rows are out of range)" if count > 1 else ""
    hint = f"; {padding_hint}" if slot == PADDING else ""
    message = f"slot_mapping row {row} holds slot {slot} ({place}); {allowed}{more}{hint}"
    return Finding("slot_range", ("slot_mapping",), message)


def _duplicate(first: int, second: int, slot: int, count: int, block_size: int) -> Finding:
    block, offset = divmod(slot, block_size)
    more = f" ({count} rows repeat an earlier slot)" if count > 1 else ""
    message = (
        f"slot_mapping rows {first} and {second} both hold slot {slot} (block {block}, offset {offset}){more}; which "
        f"row wins is undefined on the device, so every slot may occur once"
    )
    return Finding("slot_duplicate", ("slot_mapping",), message)
