# SPDX-License-Identifier: Apache-2.0
"""Good calls of both operators as TensorSpecs, to be changed in one place and checked."""

import math

import ml_dtypes
import numpy as np

from aclnn_kvcache import TensorSpec
from aclnn_kvcache.dtypes import dtype_of
from aclnn_kvcache.layout import dense_strides

SCATTER = "scatter_pa_kv_cache_with_k_scale"
QKV = "qkv_rms_norm_rope_cache_with_k_scale"


def scatter(T=3, N=2, Dk=8, Dv=16, B=4, S=4, **changes):
    return {
        "key": TensorSpec((T, N, Dk), "float8_e4m3fn"),
        "value": TensorSpec((T, N, Dv), "float8_e4m3fn"),
        "key_cache": TensorSpec((B, N, S, Dk), "float8_e4m3fn"),
        "value_cache": TensorSpec((B, N, S, Dv), "float8_e4m3fn"),
        "slot_mapping": TensorSpec((T,), "int32"),
        "key_scale": TensorSpec((T, N), "float32"),
        "key_scale_cache": TensorSpec((B, N, S, 1), "float32"),
        **changes,
    }


def qkv(T=5, heads=(4, 2, 2), batches=3, B=4, S=8, table=16, layout_qkv="TND", layout_q_out="NTD", **changes):
    nq, nk, nv = heads
    rows, out = (T, sum(heads)), (T, nq)
    return {
        "qkv": TensorSpec((*(rows if layout_qkv == "TND" else rows[::-1]), 128), "bfloat16"),
        "q_gamma": TensorSpec((128,), "float32"),
        "k_gamma": TensorSpec((128,), "float32"),
        "cos_sin": TensorSpec((table, 128), "float32"),
        "slot_mapping": TensorSpec((T,), "int32"),
        "k_cache": TensorSpec((B, nk, S, 128), "float8_e4m3fn"),
        "v_cache": TensorSpec((B, nv, S, 128), "float8_e4m3fn"),
        "k_scale_cache": TensorSpec((B, nk, S, 1), "float32"),
        "query_start_loc": TensorSpec((batches + 1,), "int32"),
        "seq_lens": TensorSpec((batches,), "int32"),
        "rotation": TensorSpec((128, 128), "bfloat16"),
        "v_scale": TensorSpec((nv,), "float32"),
        "q_out": TensorSpec((*(out if layout_q_out == "TND" else out[::-1]), 128), "float8_e4m3fn"),
        "q_scale": TensorSpec(out if layout_q_out == "TND" else out[::-1], "float32"),
        "head_nums": heads,
        "layout_qkv": layout_qkv,
        "layout_q_out": layout_q_out,
        **changes,
    }


def rope(heads=(16, 2, 2), **changes):
    """As every revision takes it."""
    return qkv(heads=heads, **changes)


def mrope(T=5, heads=(16, 2, 2), layout_q_out="TND", **changes):
    call = qkv(T=T, heads=heads, layout_q_out=layout_q_out)
    return {
        **call,
        **dict.fromkeys(("query_start_loc", "seq_lens", "q_scale")),
        "k_cache": call["k_cache"]._replace(dtype=np.dtype(np.int8)),
        "q_out": call["q_out"]._replace(dtype=np.dtype(ml_dtypes.bfloat16)),
        "v_scale": TensorSpec((heads[2], 128), "float32"),
        "mrope_position": TensorSpec((T, 3), "int32"),
        "mrope_section": (24, 20, 20),
        "q_quant_mode": "NoQuant",
        **changes,
    }


def mx(T=5, heads=(16, 2, 2), B=4, S=8, layout_q_out="TND", **changes):
    call = qkv(T=T, heads=heads, B=B, S=S, layout_q_out=layout_q_out)
    return {
        **mrope(T, heads, layout_q_out),
        **{name: call[name] for name in ("k_cache", "v_cache", "q_out")},
        "k_scale_cache": TensorSpec((B, heads[1], S, 4), "FLOAT8_E8M0"),
        "q_scale": TensorSpec((*call["q_out"].shape[:2], 4), "FLOAT8_E8M0"),
        "rotation": None,
        "q_quant_mode": "Mx",
        "k_quant_mode": "Mx",
        **changes,
    }


SCENES = {"A": (qkv,), "B": (rope, mrope), "C": (rope, mrope, mx)}
"""Calls that a revision takes."""

GOOD = {SCATTER: scatter, QKV: qkv}


def respecified(call, name, **fields):
    """The call with some fields of one spec changed; a changed shape is dense again."""
    if "shape" in fields:
        shape = fields["shape"]
        fields = {"strides": dense_strides(shape), "storage": math.prod(shape), **fields}
    if "dtype" in fields:
        fields["dtype"] = dtype_of(fields["dtype"])
    return {**call, name: call[name]._replace(**fields)}
