# SPDX-License-Identifier: Apache-2.0
"""What a scene of the fused operator is, and what all of them take."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .arguments import Argument, Array
from .qkv_rows import Angles

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3FN = np.dtype(ml_dtypes.float8_e4m3fn)
E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
FP32 = np.dtype(np.float32)
INT32 = np.dtype(np.int32)
INT8 = np.dtype(np.int8)

LAYOUTS = (("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD"))
QKV_AXES = {"TND": "T Nq+Nk+Nv 128", "NTD": "Nq+Nk+Nv T 128"}
PER_TOKEN_PER_HEAD = "PerTokenPerHead"
BATCHES = {"query_start_loc": Argument("B+1", (INT32,)), "seq_lens": Argument("B", (INT32,))}
ROTATION = {"rotation": Argument("128 128", (BF16,))}
POSITION = {"mrope_position": Argument("T 3", (INT32,))}


class HeadRows(NamedTuple):
    """What becomes of a chunk's Q and K rows, heads first: [N, T, 128], scales [N, T], [N, T, 1] or [N, T, 4]."""

    q: Array
    q_scale: Array | None
    k: Array
    k_scale: Array


class Constants(NamedTuple):
    """What every chunk needs: the gammas [128] of Q and K, the rotation matrix in float32, and how many heads are Q."""

    gammas: tuple[Array, Array]
    weights: Any  # an array, or None in a scene without rotation
    q_heads: int


class Scene(NamedTuple):
    """A way of calling the operator. Tensors that are not in `arguments` have to be None."""

    name: str
    modes: tuple[str, str]
    """q_quant_mode and k_quant_mode."""
    arguments: Mapping[str, Argument]
    layouts: tuple[tuple[str, str], ...]
    """Pairs of layout_qkv and layout_q_out."""
    q_per_k: int | None
    """Nq / Nk, where it is fixed."""
    q_out: np.dtype[Any]
    q_scale: tuple[np.dtype[Any], tuple[int, ...]] | None
    """Dtype, and the extents behind tokens and heads; None where there is no q_scale."""
    finish: Callable[[Array, Angles, Constants, Array], HeadRows]
    """Makes results of normalised rows [N, T, 128], which are lost as the last argument is, an array of that shape."""


def arguments(
    k_cache: np.dtype[Any], k_scale_cache: Argument, v_scale: str, others: Mapping[str, Argument]
) -> dict[str, Argument]:
    """The tensors of a scene; qkv, whose axes follow the layout, is left out."""
    return {
        "q_gamma": Argument("128", (FP32,)),
        "k_gamma": Argument("128", (FP32,)),
        "cos_sin": Argument("MaxSeqLen 128", (FP32,)),
        "slot_mapping": Argument("T", (INT32,)),
        "k_cache": Argument("BlockNum Nk BlockSize 128", (k_cache,)),
        "v_cache": Argument("BlockNum Nv BlockSize 128", (E4M3FN,)),
        "k_scale_cache": k_scale_cache,
        **others,
        "v_scale": Argument(v_scale, (FP32,)),
    }
