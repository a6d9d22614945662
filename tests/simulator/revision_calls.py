# SPDX-License-Identifier: Apache-2.0
"""The fused operator's two calls in revisions B and C, and the scenes that came with them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import qkv_calls
import scatter_calls
from qkv_calls import D, bf16

FOLDER = Path(os.environ.get("ACLNN_KVCACHE_LIB_DIR", ""))
REVISION = FOLDER.name.removeprefix("rev_")
NAMES = (*qkv_calls.NAMES, "mropePositionOptional")
INT8, INT32, E8M0 = 2, scatter_calls.INT32, 37
FP8, BF16, FLOAT = scatter_calls.E4M3FN, qkv_calls.BF16, scatter_calls.FLOAT
ABSENT = {
    "rope": ("mropePositionOptional",),
    "mrope": ("queryStartLoc", "seqLens", "qScale"),
    "mx": ("queryStartLoc", "seqLens", "rotationOptional"),
}
DTYPES = {
    "rope": {},
    "mrope": {"kCacheRef": INT8, "qOut": BF16},
    "mx": {"qScale": E8M0, "kScaleCacheRef": E8M0},
}
MODES = {"rope": (None, None), "mrope": (b"NoQuant", None), "mx": (b"Mx", b"Mx")}


class Attributes(NamedTuple):
    head_nums: int | None
    layout_qkv: bytes | None
    layout_q_out: bytes | None
    epsilon: float
    section: int | None
    """A handle, like the head counts."""
    q_mode: bytes | None
    k_mode: bytes | None
    """Of revision C only."""


class Device(qkv_calls.Device):
    def arguments(self, tensors: Sequence[int | None], attributes: Any) -> Sequence[Any]:
        given = attributes if REVISION == "c" else attributes[:-1]
        return (*tensors[:12], tensors[14], *given, *tensors[12:14])


class Call(qkv_calls.Call):
    """Ones everywhere, like the call of revision A; positions are 0 and the section is [24, 20, 20]."""

    def __init__(self, device: Device, scene: str = "rope", tokens: int = 3, k_heads: int = 1, **options: Any) -> None:
        heads = (8 * k_heads, k_heads, k_heads)
        super().__init__(device, tokens, heads, **options)
        self.scene = scene
        self.dtypes = qkv_calls.DTYPES | {"mropePositionOptional": scatter_calls.INT32} | DTYPES[scene]
        self.section: Sequence[int] = (24, 20, 20)
        blocks, _, block_size, _ = self.arrays["kCacheRef"].shape
        if scene != "rope":
            self.arrays["mropePositionOptional"] = np.zeros((tokens, 3), np.int32)
            self.arrays["vScaleOptional"] = np.ones((k_heads, D), np.float32)
        if scene == "mrope":
            self.arrays["qOut"] = np.full((tokens, heads[0], D), 0xCCCC, np.uint16)
        if scene == "mx":
            self.arrays["qScale"] = np.full((tokens, heads[0], 4), 0xDD, np.uint8)
            self.arrays["kScaleCacheRef"] = np.full((blocks, k_heads, block_size, 4), 0xDD, np.uint8)
        for name in ABSENT[scene]:
            self.arrays.pop(name, None)

    def prepare(self) -> Call:
        for name in self.arrays:
            array = self.stored(name)
            self.addresses[name] = self.device.upload(array)
            self.tensors[name] = self.device.tensor(array.shape, self.dtypes[name], self.addresses[name])
        device = self.device
        section = None if self.scene == "rope" else device.int_array(self.section)
        layouts = (layout.encode() for layout in self.layouts)
        self.attributes = Attributes(  # type: ignore[assignment]
            device.int_array(self.heads), *layouts, self.epsilon, section, *MODES[self.scene]
        )
        return self

    @property
    def handles(self) -> list[int]:
        return [self.tensors.get(name) for name in NAMES]  # type: ignore[misc]

    def results(self) -> dict[str, np.ndarray]:
        return {name: self.result(name) for name in qkv_calls.RESULTS if name in self.arrays}


def row(values: Any) -> np.ndarray:
    """BF16 codes of the values, repeated over the channels."""
    values = np.asarray(values, np.float32)
    return bf16(np.tile(values, D // values.size))
