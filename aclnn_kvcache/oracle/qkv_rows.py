# SPDX-License-Identifier: Apache-2.0
"""The steps of the fused operator on head rows: float32 arrays [N, T, 128], heads first, changed in place.

Heads come first so that what belongs to a token (its angles) or to a lane (gamma) repeats over whole heads: NumPy then
runs along thousands of elements at a time. An array has to fit into the CPU's cache; the caller sees to that.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .arguments import Array
from .bf16 import round_to_bf16

LANES = 128
HALF = LANES // 2

# Head rows worked on together: few enough for float32 copies to stay in the CPU's cache, many enough for what a call
# into NumPy costs not to count.
_ROWS = 2048


def chunks(tokens: int, heads: int) -> Iterator[slice]:
    """Slices of tokens that have about `_ROWS` head rows."""
    step = max(1, _ROWS // heads)
    return (slice(start, min(start + step, tokens)) for start in range(0, tokens, step))


class Angles(NamedTuple):
    """Of each token, [T, 128]: what a row is multiplied by, and what by before its halves change places."""

    straight: Array
    crossed: Array


def angles_of(cos_sin: Array) -> Angles:
    """From rows [T, 128] of 64 cosines and 64 sines."""
    cos, sin = cos_sin[:, :HALF], cos_sin[:, HALF:]
    return Angles(np.concatenate([cos, cos], axis=1), np.concatenate([sin, -sin], axis=1))


def normalise(x: Array, eps: np.float32, scratch: Array) -> None:
    """x over the root of its mean square plus eps; the sum of squares is a binary tree over neighbours."""
    np.multiply(x, x, out=scratch)
    sums = scratch[..., :HALF] + scratch[..., HALF:]
    while sums.shape[-1] > 1:
        sums = sums[..., 0::2] + sums[..., 1::2]
    sums *= np.float32(1 / LANES)
    sums += eps
    x /= np.sqrt(sums, out=sums)


def scale_by_gammas(x: Array, gammas: tuple[Array, Array], q_heads: int) -> None:
    """Each lane times the gamma of Q or of K."""
    x[:q_heads] *= gammas[0]
    x[q_heads:] *= gammas[1]


def turn(x: Array, angles: Angles, scratch: Array) -> None:
    """low * cos - high * sin and high * cos + low * sin, where low and high are the halves of the row."""
    np.multiply(x, angles.crossed, out=scratch)
    x *= angles.straight
    halves, others = (array.reshape(*array.shape[:-1], 2, HALF) for array in (x, scratch))
    halves += others[..., ::-1, :]


def multiply(x: Array, weights: Array, scratch: Array) -> Array:
    """The rows, rounded to BF16, times the rotation matrix with float32 sums. Answers in `scratch`; x is lost."""
    round_to_bf16(x, scratch)
    np.matmul(x.reshape(-1, LANES), weights, out=scratch.reshape(-1, LANES))
    return scratch


def largest(x: Array, scratch: Array) -> Array:
    """The maximum of abs(x) over the last axis, kept as an axis of 1; a NaN wins."""
    np.abs(x, out=scratch)
    # Bits of numbers that are not negative are in the order of the numbers, and NaN is behind infinity.
    top: Array = scratch.view(np.int32).max(axis=-1, keepdims=True).view(np.float32)
    return top
