# SPDX-License-Identifier: Apache-2.0
"""M-RoPE: three positions a token; Q stays BF16, K becomes INT8 with a scale a head row."""

import numpy as np

from .arguments import Argument, Array
from .bf16 import to_bf16_saturating
from .int8 import to_int8
from .qkv_rows import Angles, largest, multiply, scale_by_gammas, turn
from .qkv_scene import BF16, FP32, INT8, PER_TOKEN_PER_HEAD, POSITION, ROTATION, Constants, HeadRows, Scene, arguments

_INT8_MAX = np.float32(127)


def _finish(x: Array, angles: Angles, constants: Constants, scratch: Array) -> HeadRows:
    nq = constants.q_heads
    scale_by_gammas(x, constants.gammas, nq)
    turn(x, angles, scratch)
    out = multiply(x, constants.weights, scratch)
    k_scale = largest(out[nq:], x[nq:]) / _INT8_MAX
    return HeadRows(to_bf16_saturating(out[:nq]), None, to_int8(out[nq:] / k_scale), k_scale)


MROPE = Scene(
    name="M-RoPE",
    modes=("NoQuant", PER_TOKEN_PER_HEAD),
    arguments=arguments(INT8, Argument("BlockNum Nk BlockSize 1", (FP32,)), "Nv 128", ROTATION | POSITION),
    layouts=(("TND", "TND"),),
    q_per_k=8,
    q_out=BF16,
    q_scale=None,
    finish=_finish,
)
