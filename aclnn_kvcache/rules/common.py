# SPDX-License-Identifier: Apache-2.0
"""What the rules of all operators share: statuses, stages, and the checks that differ in names and codes only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from aclnn_kvcache.dtypes import hint_for, name_of
from aclnn_kvcache.rules.finding import Finding, TensorSpec

NULL, INVALID, INNER = 161001, 161002, 561103

Specs = Mapping[str, TensorSpec]


def first_stage(stages: Iterable[Iterable[Finding]]) -> list[Finding]:
    """The findings of the first stage that has any. Later stages rely on it and are not evaluated, if lazy."""
    for stage in stages:
        found = list(stage)
        if found:
            return found
    return []


def missing(arguments: Mapping[str, object], names: Iterable[str], ez: str | None) -> Iterator[Finding]:
    for name in names:
        if arguments[name] is None:
            yield Finding("required", (name,), f"{name} is None; the operator requires it", NULL, ez)


def wrong_dtypes(specs: Specs, allowed: Mapping[str, tuple[np.dtype[Any], ...]], ez: str) -> Iterator[Finding]:
    for name, dtypes in allowed.items():
        dtype = specs[name].dtype
        if dtype not in dtypes:
            hint = hint_for(dtype, dtypes)
            message = f"{name} must be {' or '.join(map(name_of, dtypes))}, got {name_of(dtype)}"
            yield Finding("dtype", (name,), message + (f"; {hint}" if hint else ""), INVALID, ez)


def negative_strides(specs: Specs, names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        if min(specs[name].strides, default=0) < 0:
            message = f"{name} has negative strides {list(specs[name].strides)}, which CANN does not define"
            yield Finding("negative_stride", (name,), f"{message}; pass a copy in the order wanted")


def out_of_bounds(name: str, spec: TensorSpec, status: int, ez: str | None) -> Finding:
    low, high = spec.reach
    message = f"{name} reaches from element {low} to {high - 1} of an allocation of {spec.storage} elements"
    return Finding("bounds", (name,), message, status, ez)
