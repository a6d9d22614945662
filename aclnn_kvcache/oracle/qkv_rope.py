# SPDX-License-Identifier: Apache-2.0
"""RoPE: one position a token, FP8 with a scale a head row for both Q and K."""

from .arguments import Argument, Array
from .fp8 import E4M3FN_MAX, to_e4m3fn
from .qkv_rows import Angles, largest, multiply, scale_by_gammas, turn
from .qkv_scene import (
    BATCHES,
    E4M3FN,
    FP32,
    LAYOUTS,
    PER_TOKEN_PER_HEAD,
    ROTATION,
    Constants,
    HeadRows,
    Scene,
    arguments,
)


def _finish(x: Array, angles: Angles, constants: Constants, scratch: Array) -> HeadRows:
    nq = constants.q_heads
    scale_by_gammas(x, constants.gammas, nq)
    turn(x, angles, scratch)
    out = multiply(x, constants.weights, scratch)
    scales = largest(out, x) / E4M3FN_MAX
    out /= scales
    codes = to_e4m3fn(out)
    return HeadRows(codes[:nq], scales[:nq, :, 0], codes[nq:], scales[nq:])


ROPE = Scene(
    name="RoPE",
    modes=(PER_TOKEN_PER_HEAD, PER_TOKEN_PER_HEAD),
    arguments=arguments(E4M3FN, Argument("BlockNum Nk BlockSize 1", (FP32,)), "Nv", BATCHES | ROTATION),
    layouts=LAYOUTS,
    q_per_k=None,
    q_out=E4M3FN,
    q_scale=(FP32, ()),
    finish=_finish,
)
