# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on formats, memory, strides and head limits: decisions 19 to 25 of CANN's phase 1, and
the project's own on what CANN does not look at."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from aclnn_kvcache.dtypes import PRIVATE_FORMATS, format_name
from aclnn_kvcache.rules.families import (
    FORMATS,
    bounds_rules,
    decision,
    extent_rules,
    negative_stride_rules,
    offset_rules,
    outside,
)
from aclnn_kvcache.rules.qkv_call import CACHES, INPUTS, OUTPUTS, TENSORS, head_counts
from aclnn_kvcache.rules.rule import INNER, INVALID, Broken, Call, Rule

MOST_QK, MOST_HEADS = 128, 160


def _format_rules() -> Iterator[Rule]:
    for name in TENSORS:
        expected = f"{name} must not have a private format"
        broken = partial(_private_format, name)
        yield Rule(f"format.{name}", (name,), expected, decision("19"), broken, INVALID, "EZ0017")
    for name in TENSORS:
        expected = f"{name} must have a format that CANN defines"
        yield Rule(
            f"undefined_format.{name}",
            (name,),
            expected,
            "CANN only refuses private formats",
            partial(_no_format, name),
        )


def _private_format(name: str, call: Call) -> Iterator[str]:
    number = call.spec(name).format
    if number in PRIVATE_FORMATS:
        yield f"{name} must not have a private format, got {format_name(number)}; use ND (2)"


def _no_format(name: str, call: Call) -> Iterator[str]:
    number = call.spec(name).format
    if number not in FORMATS + PRIVATE_FORMATS:
        yield f"{name} has aclFormat {format_name(number)}, for which CANN defines nothing; use ND (2)"


def _copied_bounds_rules() -> Iterator[Rule]:
    for name in INPUTS:
        expected = f"{name}, where it is not contiguous and so gets copied, must lie inside its allocation"
        broken = partial(_copied_bounds, name)
        yield Rule(f"copied_bounds.{name}", (name,), expected, decision("19a"), broken, INNER, "EZ1001")


def _copied_bounds(name: str, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    low, high = spec.reach  # CANN computes it for negative extents too
    if not spec.is_contiguous and (low < 0 or high > spec.storage):
        yield outside(name, spec)


def _bounds_are_answered(call: Call, name: str) -> bool:
    spec = call.spec(name)
    return (name in INPUTS and not spec.is_contiguous) or (name in CACHES and spec.offset > spec.storage)


def _stride_rules() -> Iterator[Rule]:
    wanted = "must have the last stride 1 and the others above 0"
    for name in "k_cache", "v_cache":
        yield _stride_rule(f"strides.{name}", (name,), f"{name} {wanted}", "22", partial(_strides, name), "EZ0028")
    pair = ("k_cache", "v_cache")
    expected = "k_cache and v_cache must have the same first three strides"
    yield _stride_rule("strides.k_cache.v_cache", pair, expected, "23", _same_strides, "EZ0027")
    name = "k_scale_cache"
    expected = f"{name} {wanted}, though its last axis has extent 1"
    yield _stride_rule(f"strides.{name}", (name,), expected, "24", partial(_strides, name), "EZ0028")


def _stride_rule(id: str, arguments: tuple[str, ...], expected: str, number: str, broken: Broken, ez: str) -> Rule:
    return Rule(id, arguments, expected, decision(number), broken, INNER, ez)


def _cache_strides(call: Call, name: str) -> tuple[int, ...]:
    call.shape(name, 4)
    return call.spec(name).strides


def _strides(name: str, call: Call) -> Iterator[str]:
    strides = _cache_strides(call, name)
    if min(strides) <= 0 or strides[3] != 1:
        though = ", though that axis has extent 1," if name == "k_scale_cache" else ""
        yield f"{name} must have the last stride 1{though} and the others above 0, got {list(strides)}"


def _same_strides(call: Call) -> Iterator[str]:
    k, v = (_cache_strides(call, name) for name in ("k_cache", "v_cache"))
    if k[:3] != v[:3]:
        yield (
            f"k_cache and v_cache must have the same strides, since the kernel uses one set for both, got {list(k)} "
            f"and {list(v)}; give both one layout"
        )


def _head_limit_rules() -> Iterator[Rule]:
    for id, symbols, parts, most in (("qk", "Nq + Nk", 2, MOST_QK), ("qkv", "Nq + Nk + Nv", 3, MOST_HEADS)):
        expected = f"{symbols} of head_nums must be at most {most}"
        broken = partial(_head_limit, symbols, parts, most)
        yield Rule(f"head_limit.{id}", ("head_nums",), expected, decision("25"), broken, INNER, "EZ0026")


def _head_limit(symbols: str, parts: int, most: int, call: Call) -> Iterator[str]:
    counts = head_counts(call)
    heads = sum(counts[:parts])
    if heads > most:
        yield f"head_nums must have {symbols} of at most {most}, got {heads} of {list(counts)}; split the heads"


def _contiguous_rules() -> Iterator[Rule]:
    for name in OUTPUTS:
        expected = f"{name} must be contiguous"
        source = "CANN ignores the strides of outputs, the kernel writes as if they were dense"
        yield Rule(f"contiguous.{name}", (name,), expected, source, partial(_contiguous, name))


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


MEMORY_RULES: tuple[Rule, ...] = (
    *_format_rules(),
    *_copied_bounds_rules(),
    *offset_rules(CACHES, decision("20"), lambda call: True),
    *bounds_rules(TENSORS, _bounds_are_answered),
    *extent_rules({"cos_sin": (0,)}, decision("21"), INNER, "EZ0009"),
    *extent_rules({"qkv": (0, 1, 2), "k_cache": (0, 2)}, "CANN only compares extents"),
    *_stride_rules(),
    *negative_stride_rules(INPUTS),
    *_contiguous_rules(),
    *_head_limit_rules(),
    Rule(
        "epsilon",
        ("epsilon",),
        "epsilon must be a finite float32 that is not negative",
        "neither host code nor kernel looks at it",
        _epsilon,
    ),
)
