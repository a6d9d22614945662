# SPDX-License-Identifier: Apache-2.0
"""Rule "mx": FP8 numbers with a power of two for every 32 of them, compared as the products that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from aclnn_kvcache.compare.report import ScaledErrors
from aclnn_kvcache.compare.rules import Array, Index, Mask, check_rtol, check_share, check_steps, require
from aclnn_kvcache.dtypes import FP8_E4M3FN

_BLOCK = 32
_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
_NAN_SCALE = 0xFF
_PAIR = np.dtype([("code", np.uint8), ("scale", np.uint8)])


class Pairs:
    """Numbers and their scales as one array of elements (code, scale); copies only the parts that are asked for."""

    dtype = _PAIR

    def __init__(self, numbers: Array, scale: Array) -> None:
        self.shape = numbers.shape
        self._numbers, self._scale = numbers.view(np.uint8), scale.view(np.uint8)

    def __getitem__(self, index: Any) -> Array:
        """The index leaves the last axis whole."""
        codes = self._numbers[index]
        pairs = np.empty(codes.shape, _PAIR)
        pairs["code"] = codes
        pairs["scale"] = np.repeat(self._scale[index], _BLOCK, axis=-1)
        return pairs


def pair(arrays: Sequence[Array], scales: Sequence[Array] | None) -> list[Pairs]:
    """The arrays with their scales. Raises TypeError and ValueError for scales that are missing or do not fit."""
    if not isinstance(scales, Sequence) or len(scales) != len(arrays):
        names = ("actual", "expected", "before")[: len(arrays)]
        got = f"{len(scales)} items" if isinstance(scales, Sequence) else type(scales).__name__
        raise ValueError(f"scale: expected for rule 'mx' a tuple of scales, those of {', '.join(names)}, got {got}")
    for i, (array, scale) in enumerate(zip(arrays, scales, strict=True)):
        if not isinstance(scale, np.ndarray) or scale.dtype != _E8M0:
            got = str(scale.dtype) if isinstance(scale, np.ndarray) else type(scale).__name__
            raise TypeError(f"scale: expected arrays of float8_e8m0fnu, got {got} as item {i}")
        if scale.shape[:-1] != array.shape[:-1] or scale.shape[-1:] != (array.shape[-1] / _BLOCK,):
            raise ValueError(
                f"scale: expected one for every {_BLOCK} numbers of a last axis, got shape {scale.shape} as item {i} "
                f"for numbers of shape {array.shape}"
            )
    return [Pairs(array, np.asarray(scale)) for array, scale in zip(arrays, scales, strict=True)]


class Mx:
    """Products at most `max_steps` apart, of the coarser of the two; at most the share `max_share` beyond `rtol`.

    Where one of the scales is NaN (0xFF) both bytes have to be equal.
    """

    def __init__(self, max_steps: int, max_share: float, rtol: float) -> None:
        self._max_steps, self._rtol, self._max_share = check_steps(max_steps), check_rtol(rtol), check_share(max_share)
        self._compared = self._beyond = self._apart = self._equal_scales = 0

    def check_dtype(self, dtype: np.dtype[Any]) -> None:
        require("mx", dtype, (FP8_E4M3FN,))

    def accepts(self, actual: Array, expected: Array) -> Mask:
        near: Mask = self._steps(actual, expected)[0] <= self._max_steps
        return near

    def measure(self, actual: Array, expected: Array) -> Array:
        steps, beyond = self._steps(actual, expected)
        self._compared += steps.size
        self._beyond += int(np.count_nonzero(beyond))
        self._apart += int(np.count_nonzero(steps > self._max_steps))
        self._equal_scales += int(np.count_nonzero(actual["scale"] == expected["scale"]))
        return steps

    def report(self, where: Index | None) -> ScaledErrors:
        scales, equal = self._compared // _BLOCK, self._equal_scales // _BLOCK
        limits = self._max_steps, self._rtol, self._max_share
        return ScaledErrors(self._compared, self._beyond, self._apart, scales, equal, where, *limits)

    def _steps(self, actual: Array, expected: Array) -> tuple[Array, Mask]:
        """How many steps the products are apart, infinite where they are none, and whether that is beyond `rtol`."""
        (a, a_step), (e, e_step) = _products(actual), _products(expected)
        difference = np.abs(a - e)
        no_number = np.isnan(difference)
        same = (actual["code"] == expected["code"]) & (actual["scale"] == expected["scale"])
        steps = np.where(no_number, np.where(same, 0, np.inf), difference / np.maximum(a_step, e_step))
        beyond = np.where(no_number, ~same, difference > self._rtol * np.abs(e))
        return steps, beyond


def _products(pairs: Array) -> tuple[Array, Array]:
    """What the pairs stand for, NaN where a part is NaN; and the distance of E4M3FN numbers there, times the scale."""
    scale = np.ldexp(1.0, pairs["scale"].astype(np.int32) - 127)
    products = np.where(pairs["scale"] == _NAN_SCALE, np.nan, _VALUES[pairs["code"]] * scale)
    # Exponents 0 and 1 both have steps of 2**-9.
    exponent = np.maximum((pairs["code"] & 0x7F) >> 3, 1).astype(np.int32)
    return products, np.ldexp(scale, exponent - 10)


_VALUES = np.arange(256, dtype=np.uint8).view(FP8_E4M3FN).astype(np.float64)
