# SPDX-License-Identifier: Apache-2.0
"""Which head rows of the fused operator's input are not finite."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .arguments import Argument, Array, as_bits, check_arrays
from .qkv_rows import chunks
from .qkv_scene import BF16, QKV_AXES
from .qkv_values import check_head_nums, check_layouts


class NonFiniteRow(NamedTuple):
    """A head row of qkv that holds a NaN or an infinity: `branch` is "q", "k" or "v", `head` counts within it."""

    token: int
    branch: str
    head: int


def non_finite_rows(qkv: Array, head_nums: Sequence[int] | Array, layout_qkv: str | None = "TND") -> list[NonFiniteRow]:
    """The head rows of qkv with a NaN or an infinity in them, by token and then by head.

    Outputs of such Q and K rows are zeros with a scale NaN, those of V rows bytes 0x00, 0x7E or 0xFE; whoever compares
    outputs names these rows, since their agreement says little. Raises as the oracle does.
    """
    heads = check_head_nums(head_nums)
    layout, _ = check_layouts(layout_qkv, "NTD")
    extents = check_arrays({"qkv": qkv}, {"qkv": Argument(QKV_AXES[layout], (BF16,))}, {"Nq+Nk+Nv": sum(heads)})
    bits = as_bits(qkv) if layout == "TND" else as_bits(qkv).swapaxes(0, 1)
    names = [(branch, head) for branch, count in zip("qkv", heads, strict=True) for head in range(count)]
    found = []
    for chunk in chunks(extents["T"], sum(heads)):
        # bfloat16 has eight exponent bits; all of them set means NaN or infinity.
        bad = ((bits[chunk] & 0x7F80) == 0x7F80).any(axis=-1)
        found += [NonFiniteRow(chunk.start + int(token), *names[head]) for token, head in np.argwhere(bad)]
    return found
