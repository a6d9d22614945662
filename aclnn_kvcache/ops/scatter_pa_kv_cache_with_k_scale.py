# SPDX-License-Identifier: Apache-2.0
"""aclnnScatterPaKvCacheWithKScale."""

from __future__ import annotations

import numpy as np

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.ops.arguments import (
    HOST,
    Arrays,
    memory_of,
    place_of,
    raise_findings,
    run_on_host_arrays,
    specs_of,
)
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as rules
from aclnn_kvcache.rules.overlap import check_overlap
from aclnn_kvcache.rules.slots import check_slots
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream

PADDINGS = ("error", "skip")


def scatter_pa_kv_cache_with_k_scale(
    device: Device, stream: Stream, arguments: Arrays, cache_layout: str | None, padding: str
) -> None:
    """Checks the arguments, by name as in ``rules.NAMES``, and runs the operator. See the method of Session."""
    if padding not in PADDINGS:
        raise ArgumentError("padding", " or ".join(map(repr, PADDINGS)), repr(padding))
    place = place_of(device, arguments, rules.CACHES)
    specs = specs_of(arguments)
    raise_findings(rules.API, rules.check(specs, cache_layout))
    present = {name: spec for name, spec in specs.items() if spec is not None}
    findings = list(check_overlap(memory_of(arguments), rules.CACHES))
    slots = arguments["slot_mapping"]
    if isinstance(slots, np.ndarray):
        blocks, _, block_size, _ = present["key_cache"].shape
        findings += check_slots(slots, blocks, block_size, skip_padding=padding == "skip")
    raise_findings(rules.API, findings)
    if rules.short_cut(present):
        return
    attributes = [None if cache_layout is None else cache_layout.encode()]
    if place == HOST:
        run_on_host_arrays(device, stream, rules.API, arguments, rules.CACHES, attributes)  # type: ignore[arg-type]
    else:
        launch(device, rules.API, [arguments[name] for name in rules.NAMES], attributes, stream)  # type: ignore[misc]
