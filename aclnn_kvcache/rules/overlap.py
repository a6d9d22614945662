# SPDX-License-Identifier: Apache-2.0
"""Rules about memory: what an operator writes shares no byte with anything else it uses, nor with itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from aclnn_kvcache.rules.region import overlaps_itself, share_memory
from aclnn_kvcache.rules.rule import Call, Rule, Unanswerable

SOURCE = "the kernel writes in no defined order"
MOST_AXES = 4
"""Of a tensor with more another rule speaks, and whether it overlaps can take for ever to tell."""


def self_overlap_rules(written: Iterable[str]) -> Iterator[Rule]:
    for name in written:
        expected = f"{name} must reach every element through one index only"
        yield Rule(f"self_overlap.{name}", (name,), expected, SOURCE, partial(_self_overlap, name))


def overlap_rules(tensors: Iterable[str], written: Sequence[str]) -> Iterator[Rule]:
    """For each written tensor with every other tensor. Each pair occurs once."""
    for position, name in enumerate(written):
        for other in tensors:
            if other not in written[: position + 1]:
                expected = f"{name}, which is written, must share no memory with {other}"
                yield Rule(f"overlap.{name}.{other}", (name, other), expected, SOURCE, partial(_overlap, (name, other)))


def _self_overlap(name: str, call: Call) -> Sequence[str]:
    """By the memory where it is known (a host array is another than the dense copy that its spec describes)."""
    unit, region = "bytes", call.regions.get(name)
    if region is None:
        spec = call.spec(name)
        if min(spec.shape, default=1) < 0:
            raise Unanswerable
        unit, layout = "elements", (spec.shape, spec.strides, 1)
    else:
        layout = region[1:]
    if len(layout[0]) > MOST_AXES:
        raise Unanswerable
    if not overlaps_itself(*layout):
        return ()
    return [
        f"{name} reaches some {unit} through more than one index (strides of {list(layout[1])} {unit}); pass a real "
        f"array"
    ]


def _overlap(pair: tuple[str, str], call: Call) -> Sequence[str]:
    if pair not in call.touching:
        return ()
    regions = [call.regions[name] for name in pair]
    if max(len(region.shape) for region in regions) > MOST_AXES:
        raise Unanswerable
    if not share_memory(*regions):
        return ()
    return [
        f"{pair[0]}, which is written, shares memory with {pair[1]}; the result would depend on the order: pass arrays "
        f"that do not overlap"
    ]
