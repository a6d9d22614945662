# SPDX-License-Identifier: Apache-2.0
"""Rules of aclnnScatterPaKvCacheWithKScale, in the order in which CANN's phase 1 checks.

Where CANN answers, a rule carries its status and message code; rules with status 0 are this package's own, for what
CANN lets through and the device would do wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from aclnn_kvcache.dtypes import FLOAT32, FP8_E4M3FN, FP8_E5M2, INT32, INT64, name_of
from aclnn_kvcache.rules.families import (
    Extent,
    Shape,
    bounds_rules,
    decision,
    dtype_rules,
    extent_rules,
    format_rules,
    has_dtype,
    negative_stride_rules,
    offset_rules,
    rank_rules,
    required_rules,
    shape_rules,
)
from aclnn_kvcache.rules.overlap import overlap_rules, self_overlap_rules
from aclnn_kvcache.rules.rule import INNER, INVALID, Call, Contract, Rule, Unanswerable
from aclnn_kvcache.rules.slots import slot_rules

API = "aclnnScatterPaKvCacheWithKScale"
NAMES = ("key", "value", "key_cache", "value_cache", "slot_mapping", "key_scale", "key_scale_cache")
CACHES = ("key_cache", "value_cache", "key_scale_cache")
LAYOUT = "BNBD"

DENSE_LAST = ("key", "value", *CACHES)
"""The stride of the last axis of these decides whether CANN uses tensors in place or copies them."""
VIEWS = ("key", "value", "key_cache", "value_cache", "key_scale", "key_scale_cache")

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
# CANN compares key_scale with key_scale_cache too, which have one dtype each anyway.
SAME_DTYPE = (("key", "key_cache"), ("value", "value_cache"), ("key", "value"))


def short_cut(call: Call) -> bool:
    """Whether CANN answers success without looking further, and phase 2 launches nothing."""

    def empty(name: str) -> bool:
        spec = call.specs[name]
        return spec is not None and spec.is_empty

    return empty("slot_mapping") or (
        (empty("key") or empty("key_cache"))
        and (empty("value") or empty("value_cache"))
        and (empty("key_scale") or empty("key_scale_cache"))
    )


def takes_copy_path(call: Call) -> bool:
    """Whether CANN makes contiguous copies in the workspace and writes whole caches back."""
    present = {name: spec for name, spec in call.specs.items() if spec is not None}
    if any(name in present and present[name].strides[-1:] != (1,) for name in DENSE_LAST):
        return True
    return all(spec.is_contiguous for name, spec in present.items() if name in VIEWS)


def _looks_at_offsets(call: Call) -> bool:
    return not takes_copy_path(call) and not short_cut(call)


def _offset_is_answered(call: Call, name: str) -> bool:
    spec = call.spec(name)
    return name in VIEWS and spec.offset > spec.storage and _looks_at_offsets(call)


def _shape(call: Call, name: str) -> tuple[int, ...]:
    shape = call.shape(name, RANKS[name])
    if name in HEAD_SIZED and shape[-1] == 0:
        raise Unanswerable
    return shape


def _extent(name: str, axis: int) -> Extent:
    return lambda call: _shape(call, name)[axis]


_T, _N, _DK = _extent("key", 0), _extent("key", 1), _extent("key", 2)
_B, _S, _DV = _extent("key_cache", 0), _extent("key_cache", 2), _extent("value", 2)
_ANY: Extent = lambda call: None  # noqa: E731
_ONE: Extent = lambda call: 1  # noqa: E731

# CANN leaves out value's T and value_cache's B and S; two rules of ours follow for them.
SHAPES = (
    Shape("shape.value", "value", "[T, N, Dv]", (_ANY, _N, _ANY), decision("8"), INNER, "EZ0009"),
    Shape("shape.key_cache", "key_cache", "[B, N, S, Dk]", (_ANY, _N, _ANY, _DK), decision("9"), INNER, "EZ0009"),
    Shape("shape.value_cache", "value_cache", "[B, N, S, Dv]", (_ANY, _N, _ANY, _DV), decision("10"), INNER, "EZ0009"),
    Shape("shape.slot_mapping", "slot_mapping", "[T]", (_T,), decision("11"), INNER, "EZ0015"),
    Shape("shape.key_scale", "key_scale", "[T, N]", (_T, _N), decision("12"), INNER, "EZ0010"),
    Shape(
        "shape.key_scale_cache", "key_scale_cache", "[B, N, S, 1]", (_B, _N, _S, _ONE), decision("13"), INNER, "EZ0010"
    ),
    Shape(
        "tokens.value",
        "value",
        "[T, N, Dv] with the T of key",
        (_T, _ANY, _ANY),
        "the kernel reads a row of value for every row of key",
    ),
    Shape(
        "blocks.value_cache",
        "value_cache",
        "[B, N, S, Dv] with the B and S of key_cache",
        (_B, _ANY, _S, _ANY),
        "the kernel bounds slots by key_cache and then writes value_cache",
    ),
)


def _origin(call: Call) -> str:
    shapes = {name: list(spec.shape) for name, spec in call.specs.items() if spec is not None}
    return f"T, N and Dk are those of key {shapes.get('key')}, B and S those of key_cache {shapes.get('key_cache')}"


def _rank_rules() -> Iterator[Rule]:
    for name, rank in RANKS.items():
        yield from rank_rules({name: rank}, "4", "EZ1001")
        if name in HEAD_SIZED:
            expected = f"{name} must have a head size (its last dimension) other than 0"
            broken = partial(_no_head_size, name, rank, expected)
            yield Rule(f"head_size.{name}", (name,), expected, decision("4"), broken, INVALID, "EZ1001")


def _no_head_size(name: str, rank: int, expected: str, call: Call) -> Iterator[str]:
    shape = call.shape(name, rank)
    if shape[-1] == 0:
        yield f"{expected}, got {list(shape)}"


def _same_dtype_rules() -> Iterator[Rule]:
    for a, b in SAME_DTYPE:
        expected = f"{a} and {b} must have one dtype"
        broken = partial(_other_dtype, a, b, expected)
        yield Rule(f"same_dtype.{a}.{b}", (a, b), expected, decision("6"), broken, INVALID, "EZ1001")


def _other_dtype(a: str, b: str, expected: str, call: Call) -> Iterator[str]:
    specs = call.spec(a), call.spec(b)
    if not all(has_dtype(spec, FP8) for spec in specs):
        raise Unanswerable
    if specs[0].dtype != specs[1].dtype:
        yield f"{expected}, got {name_of(specs[0].dtype)} and {name_of(specs[1].dtype)}"


def _cache_layout(call: Call) -> Iterator[str]:
    text = call.attributes["cache_layout"]
    if text not in (None, LAYOUT):
        yield (
            f"cache_layout must be None or {LAYOUT!r} (block, head, block size, head size), got {text!r}; CANN ignores "
            f"the text, so another layout has to be expressed by strides"
        )


CONTRACT = Contract(
    name="scatter_pa_kv_cache_with_k_scale",
    api=API,
    parameters=(*NAMES, "cache_layout"),
    tensors=NAMES,
    caches=CACHES,
    outputs=(),
    values=("slot_mapping",),
    attributes={"cache_layout": None, "padding": "error"},
    layout_rules=(
        *required_rules(NAMES, None),
        *_rank_rules(),
        *dtype_rules(DTYPES, decision("5"), "EZ1001"),
        *_same_dtype_rules(),
        *format_rules(NAMES, "CANN reads every format as ND here"),
        *negative_stride_rules(NAMES),
        *offset_rules(VIEWS, decision("7"), _looks_at_offsets),
        *bounds_rules(NAMES, _offset_is_answered),
        *extent_rules({"key": (0, 1, 2), "value": (2,), "key_cache": (0, 2)}, "CANN only compares extents"),
        *shape_rules(SHAPES, _shape, _origin),
        Rule(
            "cache_layout",
            ("cache_layout",),
            f"cache_layout must be None or {LAYOUT!r}",
            "neither host code nor kernel reads the text",
            _cache_layout,
        ),
    ),
    value_rules=tuple(slot_rules("key_cache", can_skip=True)),
    self_overlap_rules=tuple(self_overlap_rules(CACHES)),
    overlap_rules=tuple(overlap_rules(NAMES, CACHES)),
    answers_success_early=short_cut,
    comparison=lambda tensors, attributes: {},
    made_outputs=lambda specs, attributes: {},
)
