# SPDX-License-Identifier: Apache-2.0
"""Rules about slot values: each in range, none twice, -1 only where the operator skips it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from aclnn_kvcache.rules.rule import Call, Rule

PADDING = -1
PADDING_HINTS = {
    True: 'rows to be left out are -1 and need padding="skip"',
    False: "this operator skips no row, it would write in front of the cache: leave those tokens out of the call",
}


def slot_rules(cache: str, *, can_skip: bool) -> Iterator[Rule]:
    """Slots of the blocks of ``cache``. ``can_skip``: -1 passes with the attribute padding="skip"."""
    yield Rule(
        "slot_range",
        ("slot_mapping",),
        f"every slot must be one of {cache}" + (', or -1 with padding="skip"' if can_skip else ""),
        "the kernel skips such rows silently" if can_skip else "the kernel writes to any slot, outside the cache too",
        partial(_out_of_range, cache, can_skip),
    )
    yield Rule(
        "slot_duplicate",
        ("slot_mapping",),
        "every slot may occur once",
        "the kernel writes rows in no defined order",
        partial(_duplicate, cache),
    )


def _out_of_range(cache: str, can_skip: bool, call: Call) -> Iterator[str]:
    slots = call.value("slot_mapping")
    blocks, _, block_size, _ = call.shape(cache, 4)
    limit = blocks * block_size
    if not slots.size or (slots.min() >= 0 and slots.max() < limit):
        return
    outside = (slots < 0) | (slots >= limit)
    if can_skip and call.attributes["padding"] == "skip":
        outside &= slots != PADDING
    rows = np.flatnonzero(outside)
    if not rows.size:
        return
    row, slot = int(rows[0]), int(slots[rows[0]])
    if limit:
        block, offset = divmod(slot, block_size)
        place = f"block {block} of {blocks}, offset {offset} with block size {block_size}"
        allowed = f"allowed are 0..{limit - 1}"
    else:
        place = f"{blocks} blocks of {block_size}"
        allowed = "the cache has no slots"
    more = f" ({rows.size} rows are out of range)" if rows.size > 1 else ""
    hint = f"; {PADDING_HINTS[can_skip]}" if slot == PADDING else ""
    yield f"slot_mapping row {row} holds slot {slot} ({place}); {allowed}{more}{hint}"


def _duplicate(cache: str, call: Call) -> Iterator[str]:
    slots = call.value("slot_mapping")
    blocks, _, block_size, _ = call.shape(cache, 4)
    ordered = np.sort(slots)
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return
    repeated = ordered[1:][same]
    repeated = repeated[(repeated >= 0) & (repeated < blocks * block_size)]
    if not repeated.size:
        return
    slot = int(repeated[0])
    first, second = np.flatnonzero(slots == repeated[0])[:2]
    block, offset = divmod(slot, block_size)
    more = f" ({repeated.size} rows repeat an earlier slot)" if repeated.size > 1 else ""
    yield (
        f"slot_mapping rows {first} and {second} both hold slot {slot} (block {block}, offset {offset}){more}; which "
        f"row wins is undefined on the device, so every slot may occur once"
    )
