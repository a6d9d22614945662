# SPDX-License-Identifier: Apache-2.0
"""Rules of aclnnScatterPaKvCacheWithKScale, in the order in which CANN's phase 1 checks.

Each table is one stage. A stage that finds something is the last: the later ones rely on it. Where CANN answers, a
rule carries its status and message code; rules with status 0 are this package's own, for what CANN lets through and
the device would do wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from aclnn_kvcache.dtypes import FLOAT32, FP8_E4M3FN, FP8_E5M2, INT32, INT64, name_of
from aclnn_kvcache.layout import bounds
from aclnn_kvcache.rules.common import (
    INNER,
    INVALID,
    Specs,
    first_stage,
    missing,
    negative_strides,
    out_of_bounds,
    wrong_dtypes,
)
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.rule import Contract

API = "aclnnScatterPaKvCacheWithKScale"
NAMES = ("key", "value", "key_cache", "value_cache", "slot_mapping", "key_scale", "key_scale_cache")
CACHES = ("key_cache", "value_cache", "key_scale_cache")
LAYOUT = "BNBD"

INDEX_LIMIT = 2**31 - 1
WORD = 2**32

RANKS = {
    "key": 3,
    "value": 3,
    "slot_mapping": 1,
    "key_cache": 4,
    "value_cache": 4,
    "key_scale": 2,
    "key_scale_cache": 4,
}
HEAD_SIZED = ("key", "value", "key_cache", "value_cache")

FP8 = (FP8_E5M2, FP8_E4M3FN)
DTYPES = {
    "key": FP8,
    "value": FP8,
    "key_cache": FP8,
    "value_cache": FP8,
    "slot_mapping": (INT32, INT64),
    "key_scale": (FLOAT32,),
    "key_scale_cache": (FLOAT32,),
}
SAME_DTYPE = (("key", "key_cache"), ("value", "value_cache"), ("key", "value"), ("key_scale", "key_scale_cache"))

Extent = Callable[[Specs], "int | None"]


def _extent(name: str, axis: int) -> Extent:
    return lambda specs: specs[name].shape[axis]


_T, _N, _DK = _extent("key", 0), _extent("key", 1), _extent("key", 2)
_B, _S, _DV = _extent("key_cache", 0), _extent("key_cache", 2), _extent("value", 2)
_ANY: Extent = lambda specs: None  # noqa: E731


class Shape(NamedTuple):
    """The extents that an argument must have, and what CANN answers if it has others."""

    name: str
    symbols: str
    extents: tuple[Extent, ...]
    status: int
    ez: str | None


# CANN compares the extents with a status; the ones it leaves out (value's T, value_cache's B and S) are read or written
# out of bounds by the kernel, so they follow as rules of ours.
SHAPES = (
    Shape("value", "[T, N, Dv]", (_ANY, _N, _ANY), INNER, "EZ0009"),
    Shape("key_cache", "[B, N, S, Dk]", (_ANY, _N, _ANY, _DK), INNER, "EZ0009"),
    Shape("value_cache", "[B, N, S, Dv]", (_ANY, _N, _ANY, _DV), INNER, "EZ0009"),
    Shape("slot_mapping", "[T]", (_T,), INNER, "EZ0015"),
    Shape("key_scale", "[T, N]", (_T, _N), INNER, "EZ0010"),
    Shape("key_scale_cache", "[B, N, S, 1]", (_B, _N, _S, lambda specs: 1), INNER, "EZ0010"),
    Shape("value", "[T, N, Dv]", (_T, _N, _ANY), 0, None),
    Shape("value_cache", "[B, N, S, Dv]", (_B, _N, _S, _DV), 0, None),
)


def check(specs: Mapping[str, TensorSpec | None], cache_layout: str | None = None) -> list[Finding]:
    """What is wrong with a call, in CANN's order; empty for a call that the device carries out as documented."""
    absent = list(missing(specs, NAMES, None))
    if absent:
        return absent
    present: Specs = {name: spec for name, spec in specs.items() if spec is not None}
    stages = (_ranks, _dtypes, _equal_dtypes, _memory_and_shapes, _layouts)
    found = first_stage(stage(present) for stage in stages)
    if found and short_cut(present):
        # CANN answers the empty short-cut before it looks at anything but NULL.
        return [finding._replace(status=0, ez=None) for finding in found]
    return found or list(check_cache_layout(cache_layout))


def short_cut(specs: Specs) -> bool:
    """Whether CANN answers success without looking further, and phase 2 launches nothing."""
    empty = {name: spec.is_empty for name, spec in specs.items()}
    return empty["slot_mapping"] or (
        (empty["key"] or empty["key_cache"])
        and (empty["value"] or empty["value_cache"])
        and (empty["key_scale"] or empty["key_scale_cache"])
    )


def takes_copy_path(specs: Specs) -> bool:
    """Whether CANN makes contiguous copies in the workspace and writes whole caches back."""
    last = ("key", "value", *CACHES)
    all_contiguous = all(specs[name].is_contiguous for name in (*last, "key_scale"))
    return all_contiguous or any(specs[name].strides[-1] != 1 for name in last)


def _ranks(specs: Specs) -> Iterator[Finding]:
    for name, rank in RANKS.items():
        shape = specs[name].shape
        if len(shape) != rank:
            yield Finding("rank", (name,), f"{name} must have {rank} dimensions, got {list(shape)}", INVALID, "EZ1001")
        elif name in HEAD_SIZED and shape[-1] == 0:
            message = f"{name} must have a head size (its last dimension) above 0, got {list(shape)}"
            yield Finding("head_size", (name,), message, INVALID, "EZ1001")


def _dtypes(specs: Specs) -> Iterator[Finding]:
    return wrong_dtypes(specs, DTYPES, "EZ1001")


def _equal_dtypes(specs: Specs) -> Iterator[Finding]:
    for a, b in SAME_DTYPE:
        if specs[a].dtype != specs[b].dtype:
            message = f"{a} and {b} must have one dtype, got {name_of(specs[a].dtype)} and {name_of(specs[b].dtype)}"
            yield Finding("same_dtype", (a, b), message, INVALID, "EZ1001")


def _memory_and_shapes(specs: Specs) -> Iterator[Finding]:
    """One stage: CANN lets most of what reaches outside its allocation pass, and goes on to the shapes."""
    yield from negative_strides(specs, NAMES)
    yield from _bounds(specs)
    yield from _shapes(specs)


def _bounds(specs: Specs) -> Iterator[Finding]:
    # All that CANN looks at is an offset behind the storage, and that only on its view path.
    looks = not takes_copy_path(specs) and not short_cut(specs)
    for name in ("key", "value", *CACHES, "key_scale", "slot_mapping"):
        spec = specs[name]
        if looks and name != "slot_mapping" and spec.offset > spec.storage:
            yield out_of_bounds(name, spec, INNER, "EZ9999")
        elif spec.is_outside:
            yield out_of_bounds(name, spec, 0, None)


def _shapes(specs: Specs) -> Iterator[Finding]:
    for name, symbols, extents, status, ez in SHAPES:
        shape = specs[name].shape
        want = [extent(specs) for extent in extents]
        if any(w is not None and w != got for w, got in zip(want, shape, strict=True)):
            wanted = ", ".join("any" if w is None else str(w) for w in want)
            message = (
                f"{name} must be {symbols} = [{wanted}], got {list(shape)}; T, N and Dk are those of key "
                f"{list(specs['key'].shape)}, B and S those of key_cache {list(specs['key_cache'].shape)}"
            )
            yield Finding("shape", (name,), message, status, ez)
            return


def _layouts(specs: Specs) -> Iterator[Finding]:
    tokens, heads, _ = specs["key"].shape
    blocks, _, block_size, _ = specs["key_cache"].shape
    widest = max(specs["key"].shape[2], specs["value"].shape[2])
    if takes_copy_path(specs):
        strided = [name for name in CACHES if not specs[name].is_contiguous]
        if strided:
            yield _whole_cache_copy(specs, strided)
    if tokens * heads * widest <= INDEX_LIMIT:
        yield from _index_width(specs, blocks * block_size)


def _whole_cache_copy(specs: Specs, strided: Iterable[str]) -> Finding:
    names = tuple(strided)
    culprits = [name for name in ("key", "value", *CACHES) if specs[name].strides[-1] != 1]
    message = (
        f"{' and '.join(names)} would be copied whole into the workspace and back, losing concurrent updates, because "
        f"the last axis of {' and '.join(culprits)} has a stride other than 1; make that axis dense"
    )
    return Finding("whole_cache_copy", names, message)


def _index_width(specs: Specs, slots: int) -> Iterator[Finding]:
    """The kernel computes in 32 bits when T * N * max(Dk, Dv) is at most 2**31 - 1, whatever the cache's size."""
    if slots > WORD:
        message = f"key_cache has {slots} slots; with so few tokens the kernel computes slots in 32 bits"
        yield Finding("index_width", ("key_cache",), f"{message}: use a cache of at most {WORD} slots")
    for name in ("key", "value", *CACHES, "key_scale"):
        reach = bounds(specs[name].shape, specs[name].strides)[1]
        if reach > WORD:
            message = (
                f"{name} reaches over {reach} elements; with so few tokens the kernel computes offsets in 32 bits and "
                f"would go to a wrong place. Use at most {WORD} elements, a slice of the cache for instance"
            )
            yield Finding("index_width", (name,), message)


def check_cache_layout(cache_layout: str | None) -> Iterator[Finding]:
    """A finding for any text but the documented one: CANN reads none of them."""
    if cache_layout is not None and not (isinstance(cache_layout, str) and cache_layout == LAYOUT):
        message = (
            f"cache_layout must be None or {LAYOUT!r} (block, head, block size, head size), got {cache_layout!r}; CANN "
            f"ignores the text, so another layout has to be expressed by strides"
        )
        yield Finding("cache_layout", ("cache_layout",), message)


CONTRACT = Contract(
    name="scatter_pa_kv_cache_with_k_scale",
    api=API,
    parameters=(*NAMES, "cache_layout"),
    tensors=NAMES,
    caches=CACHES,
    outputs=(),
    attributes={"cache_layout": None, "padding": "error"},
    layout_rules=(),
    data_rules=(),
    answers_success_early=lambda call: False,
)
