# SPDX-License-Identifier: Apache-2.0
"""aclnnScatterPaKvCacheWithKScale."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import numpy as np

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    Array,
    Arrays,
    place_of,
    raise_findings,
    regions_of,
    run_on_host_arrays,
    specs_of,
)
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as rules
from aclnn_kvcache.rules.finding import Finding, TensorSpec
from aclnn_kvcache.rules.overlap import check_overlap
from aclnn_kvcache.rules.slots import check_slots
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream

PADDINGS = ("error", "skip")


def scatter_pa_kv_cache_with_k_scale(
    device: Device, stream: Stream, arguments: Arrays, cache_layout: str | None, padding: str
) -> None:
    """Checks the arguments, by name as in ``rules.NAMES``, and runs the operator. See the method of Session."""
    if not isinstance(padding, str) or padding not in PADDINGS:
        raise ArgumentError("padding", " or ".join(map(repr, PADDINGS)), repr(padding))
    place = place_of(device, arguments, rules.CACHES)
    findings, does_nothing = _check(specs_of(arguments, rules.NAMES))
    raise_findings(rules.API, [*findings, *rules.check_cache_layout(cache_layout)])
    arrays = cast("Mapping[str, Array]", arguments)
    findings = [*check_overlap(regions_of(arrays), rules.CACHES), *_check_slots(arrays, padding)]
    raise_findings(rules.API, findings)
    if does_nothing:
        return
    text = None if cache_layout is None else cache_layout.encode()
    if place == DEVICE:
        launch(device, rules.API, [*(arrays[name] for name in rules.NAMES), text], stream)
    else:
        on_host = cast("Mapping[str, np.ndarray]", arrays)
        run_on_host_arrays(
            device, on_host, rules.CACHES, lambda d: launch(device, rules.API, [*d.values(), text], stream), stream
        )


@lru_cache(maxsize=256)
def _check(specs: tuple[TensorSpec | None, ...]) -> tuple[list[Finding], bool]:
    """What the rules find, and whether the call does nothing. Calls in a loop ask the same again and again."""
    named = dict(zip(rules.NAMES, specs, strict=True))
    findings = rules.check(named)
    return findings, not findings and rules.short_cut({name: spec for name, spec in named.items() if spec is not None})


def _check_slots(arrays: Mapping[str, Array], padding: str) -> list[Finding]:
    slots = arrays["slot_mapping"]
    if not isinstance(slots, np.ndarray):
        return []
    blocks, _, block_size, _ = arrays["key_cache"].shape
    return list(check_slots(slots, blocks, block_size, skip_padding=padding == "skip"))
