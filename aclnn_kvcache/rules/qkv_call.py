# SPDX-License-Identifier: Apache-2.0
"""A call of the fused operator, as its rules see it: names, dtypes, layouts and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from aclnn_kvcache.dtypes import BFLOAT16, FLOAT32, FP8_E4M3FN, INT32
from aclnn_kvcache.rules.common import Specs

DTYPES = {
    "qkv": (BFLOAT16,),
    "q_gamma": (FLOAT32,),
    "k_gamma": (FLOAT32,),
    "cos_sin": (FLOAT32,),
    "slot_mapping": (INT32,),
    "k_cache": (FP8_E4M3FN,),
    "v_cache": (FP8_E4M3FN,),
    "k_scale_cache": (FLOAT32,),
    "query_start_loc": (INT32,),
    "seq_lens": (INT32,),
    "rotation": (BFLOAT16,),
    "v_scale": (FLOAT32,),
    "q_out": (FP8_E4M3FN,),
    "q_scale": (FLOAT32,),
}
TENSORS = tuple(DTYPES)
CACHES = ("k_cache", "v_cache", "k_scale_cache")
OUTPUTS = ("q_out", "q_scale")
INPUTS = tuple(name for name in TENSORS if name not in CACHES + OUTPUTS)
NAMES = (*TENSORS[:-2], "head_nums", *OUTPUTS)
"""The required arguments, in the order of the C function."""

LAYOUTS = ("TND", "NTD")
DEFAULT_LAYOUTS = ("TND", "NTD")
"""What NULL and "" stand for, for qkv and for q_out."""

D = 128


class Call(NamedTuple):
    specs: Specs
    head_nums: Sequence[int]
    layout_qkv: str
    layout_q_out: str
    epsilon: float

    @property
    def tokens(self) -> int:
        return self.specs["qkv"].shape[self.layout_qkv.index("T")]

    def shape(self, name: str) -> tuple[int, ...]:
        return self.specs[name].shape
