# SPDX-License-Identifier: Apache-2.0
"""aclnnScatterPaKvCacheWithKScale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np

from aclnn_kvcache.errors import ArgumentError
from aclnn_kvcache.launch import launch
from aclnn_kvcache.ops.arguments import (
    DEVICE,
    Array,
    Arrays,
    c_arguments,
    place_of,
    require_valid,
    run_on_host_arrays,
    spec_of,
)
from aclnn_kvcache.ops.failure import Failing
from aclnn_kvcache.ops.known import exact, recall, relaunched, remember
from aclnn_kvcache.ops.plan import Plan, arguments_of_plan
from aclnn_kvcache.rules.scatter_pa_kv_cache_with_k_scale import CONTRACT
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream

PADDINGS = ("error", "skip")


class Attributes(NamedTuple):
    cache_layout: str | None
    padding: str

    @classmethod
    def of(cls, cache_layout: object, padding: object) -> Attributes:
        """Raises ArgumentError for anything of another type, and for an unknown padding."""
        if cache_layout is not None and not isinstance(cache_layout, str):
            raise ArgumentError("cache_layout", "a string or None", type(cache_layout).__name__)
        if not isinstance(padding, str) or padding not in PADDINGS:
            raise ArgumentError("padding", " or ".join(map(repr, PADDINGS)), repr(padding))
        return cls(cache_layout, padding)


def scatter_pa_kv_cache_with_k_scale(
    device: Device, stream: Stream, arguments: Arrays, cache_layout: str | None, padding: str
) -> None:
    """Checks the arguments, by name as in the contract, and runs the operator. See the method of Session."""
    attributes = Attributes.of(cache_layout, padding)
    made = exact(device, arguments.values(), (CONTRACT.name, attributes))
    if made is not None and relaunched(device, CONTRACT, stream, made):
        return
    place, checked = DEVICE, recall(made)
    if checked is None:
        place = place_of(device, arguments, CONTRACT.caches)
        specs = {name: spec_of(arguments[name]) for name in CONTRACT.tensors}
        checked = require_valid(device.library, CONTRACT, place, specs, arguments, attributes._asdict())
        remember(made, checked)
    if not checked.launches:
        return
    arrays = cast("Mapping[str, Array]", arguments)
    named = attributes._asdict()

    def call(on_device: Mapping[str, Array], key: object = None) -> None:
        launch(device, CONTRACT.api, c_arguments(CONTRACT, on_device, named), stream, checked.described, key)

    with Failing(device.library, CONTRACT.api, checked.described):
        if place == DEVICE:
            call(arrays, made and made.key)
        else:
            on_host = cast("Mapping[str, np.ndarray]", arrays)
            run_on_host_arrays(device, on_host, CONTRACT.caches, call, stream)


def prepare(device: Device, stream: Stream, arguments: Arrays, cache_layout: str | None, padding: str) -> Plan:
    """Checks the arguments and makes a plan of the call. See the method of Session."""
    attributes = Attributes.of(cache_layout, padding)._asdict()
    arguments = arguments_of_plan(device, CONTRACT, arguments)
    specs = {name: spec_of(arguments[name]) for name in CONTRACT.tensors}
    checked = require_valid(device.library, CONTRACT, DEVICE, specs, arguments, attributes)
    if not checked.launches:
        raise ArgumentError("slot_mapping", "at least one token: a plan launches", "a call that launches nothing")
    return Plan(device, stream, CONTRACT, cast("Mapping[str, Array]", arguments), attributes, checked)
