# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on formats, memory, strides and head limits: 19 to 25 of CANN's decision list, and ours.

Each function of ``STAGES`` is one stage; the numbers in the comments are those of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from aclnn_kvcache.rules.common import INNER, INVALID, negative_strides, out_of_bounds
from aclnn_kvcache.rules.finding import Finding
from aclnn_kvcache.rules.qkv_call import CACHES, INPUTS, OUTPUTS, TENSORS, Call

MOST_QK, MOST_HEADS = 128, 160
PRIVATE_FORMATS = (3, 4, 12, 29, 32, 33, *range(50, 55))
PASSING_FORMATS = (0, 1, 2, 16, 27, 30, 35, 47)


def _formats(call: Call) -> Iterator[Finding]:  # 19
    for name in TENSORS:
        number = call.specs[name].format
        if number in PRIVATE_FORMATS:
            message = f"{name} must not have a private format, got aclFormat {number}; use ND (2)"
            yield Finding("format", (name,), message, INVALID, "EZ0017")


def _memory_and_limits(call: Call) -> Iterator[Finding]:
    """One stage: what is out of bounds or unknown to CANN does not hide what it answers to."""
    yield from _bounds(call)
    yield from _extents(call)
    yield from _strides(call)
    yield from _head_limits(call)
    for name in TENSORS:
        number = call.specs[name].format
        if number not in PASSING_FORMATS + PRIVATE_FORMATS:
            message = f"{name} has aclFormat {number}, for which CANN defines nothing; use ND (2)"
            yield Finding("format", (name,), message)
    with np.errstate(all="ignore"):
        fits = np.isfinite(np.float32(call.epsilon)) and call.epsilon >= 0
    if not fits:
        message = f"epsilon must be a finite float32 that is not negative, got {call.epsilon!r}; CANN does not look"
        yield Finding("epsilon", ("epsilon",), message)


def _bounds(call: Call) -> Iterator[Finding]:
    for name in (*INPUTS, *CACHES, *OUTPUTS):
        spec = call.specs[name]
        if name in CACHES and spec.offset > spec.storage:  # 20
            yield out_of_bounds(name, spec, INNER, "EZ9999")
        elif spec.is_outside and min(spec.shape) > 0:
            copied = name in INPUTS and not spec.is_contiguous  # 19a
            yield out_of_bounds(name, spec, *((INNER, "EZ1001") if copied else (0, None)))


def _extents(call: Call) -> Iterator[Finding]:
    for name in TENSORS:
        if min(call.shape(name)) < 0:
            message = f"{name} must have no negative dimension, got {list(call.shape(name))}"
            seen = name == "cos_sin"  # 21
            yield Finding("extent", (name,), message, *((INNER, "EZ0009") if seen else (0, None)))


def _strides(call: Call) -> Iterator[Finding]:
    k, v, scale = (call.specs[name].strides for name in CACHES)
    for name, strides in (("k_cache", k), ("v_cache", v)):  # 22
        if min(strides[:3]) <= 0 or strides[3] != 1:
            yield _stride(name, "the last stride 1 and the others above 0", strides)
    if k[:3] != v[:3]:  # 23
        message = (
            f"k_cache and v_cache must have the same strides, since the kernel uses one set for both, got {list(k)} "
            f"and {list(v)}; give both one layout"
        )
        yield Finding("strides", ("k_cache", "v_cache"), message, INNER, "EZ0027")
    if min(scale) <= 0 or scale[3] != 1:  # 24
        yield _stride(
            "k_scale_cache", "the last stride 1, though that axis has extent 1, and the others above 0", scale
        )
    yield from negative_strides(call.specs, INPUTS)
    for name in OUTPUTS:
        spec = call.specs[name]
        if not spec.is_contiguous:
            message = (
                f"{name} must be contiguous, got strides {list(spec.strides)} for {list(spec.shape)}; CANN ignores "
                f"them, the results would land as if it were: pass a contiguous array"
            )
            yield Finding("contiguous", (name,), message)


def _stride(name: str, wanted: str, strides: tuple[int, ...]) -> Finding:
    return Finding("strides", (name,), f"{name} must have {wanted}, got {list(strides)}", INNER, "EZ0028")


def _head_limits(call: Call) -> Iterator[Finding]:  # 25
    nq, nk, nv = call.head_nums
    for symbols, heads, most in ("Nq + Nk", nq + nk, MOST_QK), ("Nq + Nk + Nv", nq + nk + nv, MOST_HEADS):
        if heads > most:
            message = f"head_nums must have {symbols} of at most {most}, got {heads} of {list(call.head_nums)}"
            yield Finding("head_limit", ("head_nums",), f"{message}; split the heads", INNER, "EZ0026")


STAGES: tuple[Callable[[Call], Iterator[Finding]], ...] = (_formats, _memory_and_limits)
