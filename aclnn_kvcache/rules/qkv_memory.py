# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on formats, memory and strides, and the project's own on what CANN does not look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from aclnn_kvcache.dtypes import PRIVATE_FORMATS, format_name
from aclnn_kvcache.rules.families import FORMATS, bounds_rules, decision, negative_stride_rules, offset_rules, outside
from aclnn_kvcache.rules.finding import TensorSpec
from aclnn_kvcache.rules.qkv_call import CACHES, OUTPUTS
from aclnn_kvcache.rules.rule import INNER, INVALID, Call, Rule

CopiedOutside = Callable[[TensorSpec], bool]
"""Whether CANN refuses an input because it would have to copy it and finds it outside its allocation."""


def private_format_rules(names: Iterable[str], number: str) -> Iterator[Rule]:
    for name in names:
        expected = f"{name} must not have a private format"
        broken = partial(_private_format, name)
        yield Rule(f"format.{name}", (name,), expected, decision(number), broken, INVALID, "EZ0017")


def _private_format(name: str, call: Call) -> Iterator[str]:
    number = call.spec(name).format
    if number in PRIVATE_FORMATS:
        yield f"{name} must not have a private format, got {format_name(number)}; use ND (2)"


def undefined_format_rules(names: Iterable[str]) -> Iterator[Rule]:
    for name in names:
        expected, source = f"{name} must have a format that CANN defines", "CANN only refuses private formats"
        yield Rule(f"undefined_format.{name}", (name,), expected, source, partial(_no_format, name))


def _no_format(name: str, call: Call) -> Iterator[str]:
    number = call.spec(name).format
    if number not in FORMATS + PRIVATE_FORMATS:
        yield f"{name} has aclFormat {format_name(number)}, for which CANN defines nothing; use ND (2)"


def copied_outside_a(spec: TensorSpec) -> bool:
    """What is known of revision A, which computes it for negative extents too."""
    low, high = spec.reach
    return not spec.is_contiguous and (low < 0 or high > spec.storage)


def copied_outside(spec: TensorSpec) -> bool:
    """In revisions B and C. A private format counts as contiguous; a negative extent makes dense strides negative, but
    for the first axis, which no stride depends on."""
    if spec.format in PRIVATE_FORMATS or spec.is_empty:
        return False
    low, high = spec.reach
    return min(spec.shape[1:], default=0) < 0 or (not spec.is_contiguous and (low < 0 or high > spec.storage))


def place_rules(inputs: tuple[str, ...], numbers: tuple[str, str], copied: CopiedOutside) -> Iterator[Rule]:
    """Where tensors lie in their allocations: inputs that CANN copies, offsets of caches, and what CANN passes over."""
    is_a = copied is copied_outside_a
    for name in inputs:
        expected = f"{name}, where it is not contiguous and so gets copied, must lie inside its allocation"
        broken = partial(_copied_bounds, name, copied)
        yield Rule(f"copied_bounds.{name}", (name,), expected, decision(numbers[0]), broken, INNER, "EZ1001")
    yield from offset_rules(CACHES, decision(numbers[1]), lambda call: True, negative=not is_a)
    tensors = (*inputs, *CACHES, *OUTPUTS)
    yield from bounds_rules(tensors, partial(_bounds_are_answered, inputs, copied, is_a))


def _copied_bounds(name: str, copied: CopiedOutside, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if copied(spec):
        is_negative = min(spec.shape, default=0) < 0
        yield f"{name} must have no negative dimension, got {list(spec.shape)}" if is_negative else outside(name, spec)


def _bounds_are_answered(inputs: tuple[str, ...], copied: CopiedOutside, is_a: bool, call: Call, name: str) -> bool:
    spec = call.spec(name)
    if name in inputs:
        return copied(spec)
    return name in CACHES and (spec.offset > spec.storage or (spec.offset < 0 and not is_a))


Least = tuple[int, int, int]
"""What the first three strides of a cache must be at least."""
ABOVE_0: Least = (1, 1, 1)
ROWS_APART: Least = (1, 128, 128)


def stride_rules(name: str, least: Least, number: str, status: int) -> Iterator[Rule]:
    """The last stride of a cache is 1, the others have their least values."""
    though = ", though its last axis has extent 1" if name == "k_scale_cache" and least == ABOVE_0 else ""
    wanted = "above 0" if least == ABOVE_0 else f"of at least {list(least)}"
    expected = f"{name} must have the last stride 1 and the others {wanted}{though}"
    broken = partial(_strides, name, least, wanted, bool(though))
    yield Rule(f"strides.{name}", (name,), expected, decision(number), broken, status, "EZ0028")


def cache_strides(call: Call, name: str) -> tuple[int, ...]:
    call.shape(name, 4)
    return call.spec(name).strides


def _strides(name: str, least: Least, wanted: str, though: bool, call: Call) -> Iterator[str]:
    strides = cache_strides(call, name)
    if strides[3] != 1 or any(stride < low for stride, low in zip(strides, least, strict=False)):
        words = ", though that axis has extent 1," if though else ""
        yield f"{name} must have the last stride 1{words} and the others {wanted}, got {list(strides)}"


def same_strides(number: str, status: int) -> Rule:
    pair, expected = ("k_cache", "v_cache"), "k_cache and v_cache must have the same first three strides"
    return Rule("strides.k_cache.v_cache", pair, expected, decision(number), _same_strides, status, "EZ0027")


def _same_strides(call: Call) -> Iterator[str]:
    k, v = (cache_strides(call, name) for name in ("k_cache", "v_cache"))
    if k[:3] != v[:3]:
        yield (
            f"k_cache and v_cache must have the same strides, since the kernel uses one set for both, got {list(k)} "
            f"and {list(v)}; give both one layout"
        )


def nested_rule(names: tuple[str, ...], number: str) -> Rule:
    """The axes of caches lie inside one another in their order. K and V, which share strides, break it together."""
    expected = f"{' and '.join(names)} must have axes that lie inside one another in their order"
    broken = partial(_nested, names, expected)
    return Rule(f"nested.{'.'.join(names)}", names, expected, decision(number), broken, INVALID, "EZ1008")


def _nested(names: tuple[str, ...], expected: str, call: Call) -> Iterator[str]:
    layouts = [(call.shape(name, 4), call.spec(name).strides) for name in names]
    if not all(_is_nested(*layout) for layout in layouts):
        got = " and ".join(f"{list(shape)} with strides {list(strides)}" for shape, strides in layouts)
        yield (
            f"{expected}, got {got}; revisions A and B of the operator take token-major caches, C does not: keep "
            f"block, head, token order in memory too"
        )


def _is_nested(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    span = 1
    for extent, stride in zip(shape[::-1], strides[::-1], strict=True):
        if extent > 1:
            if stride < span:
                return False
            span += (extent - 1) * stride
    return span < 2**63


def own_rules(inputs: tuple[str, ...]) -> Iterator[Rule]:
    """On strides and epsilon, which no revision looks at."""
    yield from negative_stride_rules(inputs)
    for name in OUTPUTS:
        expected = f"{name} must be contiguous"
        source = "CANN ignores the strides of outputs, the kernel writes as if they were dense"
        yield Rule(f"contiguous.{name}", (name,), expected, source, partial(_contiguous, name))
    expected = "epsilon must be a finite float32 that is not negative"
    yield Rule("epsilon", ("epsilon",), expected, "neither host code nor kernel looks at it", _epsilon)


def _contiguous(name: str, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if not spec.is_contiguous and min(spec.shape, default=1) > 0:  # of other shapes another rule speaks
        yield (
            f"{name} must be contiguous, got strides {list(spec.strides)} for {list(spec.shape)}; CANN ignores them, "
            f"the results would land as if it were: pass a contiguous array"
        )


def _epsilon(call: Call) -> Iterator[str]:
    epsilon = call.attributes["epsilon"]
    with np.errstate(all="ignore"):
        fits = np.isfinite(np.float32(epsilon)) and epsilon >= 0
    if not fits:
        yield f"epsilon must be a finite float32 that is not negative, got {epsilon!r}; CANN does not look"
