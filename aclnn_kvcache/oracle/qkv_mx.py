# SPDX-License-Identifier: Apache-2.0
"""Mx: M-RoPE without a rotation matrix; blocks of 32 channels of Q and K share an E8M0 scale."""

from .arguments import Argument, Array
from .e8m0 import reciprocals, to_scales
from .fp8 import to_e4m3fn
from .qkv_rows import Angles, largest, turn
from .qkv_scene import E4M3FN, E8M0, POSITION, Constants, HeadRows, Scene, arguments

_BLOCK = 32


def _finish(x: Array, angles: Angles, constants: Constants, scratch: Array) -> HeadRows:
    nq = constants.q_heads
    for part, gamma in zip((slice(nq), slice(nq, None)), constants.gammas, strict=True):
        # The device multiplies its cosines and sines by gamma, not the rows: the products round differently.
        turn(x[part], Angles(angles.straight * gamma, angles.crossed * gamma), scratch[part])
    blocks, scratch = (array.reshape(*x.shape[:-1], -1, _BLOCK) for array in (x, scratch))
    scales = to_scales(largest(blocks, scratch))
    blocks *= reciprocals(scales)
    codes, scales = to_e4m3fn(x), scales[..., 0]
    return HeadRows(codes[:nq], scales[:nq], codes[nq:], scales[nq:])


MX = Scene(
    name="Mx",
    modes=("Mx", "Mx"),
    arguments=arguments(E4M3FN, Argument("BlockNum Nk BlockSize 4", (E8M0,)), "Nv 128", POSITION),
    layouts=(("TND", "TND"),),
    q_per_k=8,
    q_out=E4M3FN,
    q_scale=(E8M0, (4,)),
    finish=_finish,
)
