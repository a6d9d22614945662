# SPDX-License-Identifier: Apache-2.0
"""The fused operator's two calls, on typed C functions, with values that can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scatter_calls

NAMES = (
    *("qkv", "qGamma", "kGamma", "cosSin", "slotMapping", "kCacheRef", "vCacheRef", "kScaleCacheRef"),
    *("queryStartLoc", "seqLens", "rotationOptional", "vScaleOptional", "qOut", "qScale"),
)
CACHES = ("kCacheRef", "vCacheRef", "kScaleCacheRef")
RESULTS = ("qOut", "qScale", *CACHES)
BF16 = 27
DTYPES = dict.fromkeys(NAMES, scatter_calls.FLOAT) | {
    "qkv": BF16,
    "rotationOptional": BF16,
    "slotMapping": scatter_calls.INT32,
    "queryStartLoc": scatter_calls.INT32,
    "seqLens": scatter_calls.INT32,
    "kCacheRef": scatter_calls.E4M3FN,
    "vCacheRef": scatter_calls.E4M3FN,
    "qOut": scatter_calls.E4M3FN,
}
WORKSPACE = 33_554_944
D = 128
ONE_HOT = 11.3125
"""A row with one x that is not 0: x / sqrt(x * x / 128) is sqrt(128), which BF16 rounds to this."""


class Attributes(NamedTuple):
    head_nums: int | None
    """A handle."""
    layout_qkv: bytes | None = b"TND"
    layout_q_out: bytes | None = b"TND"
    epsilon: float = 0.0


class Device(scatter_calls.Device):
    operator = "aclnnQkvRmsNormRopeCacheWithKScale"

    def __init__(self, sim: Any, init: bool = True) -> None:
        super().__init__(sim, init)
        self.arrays: list[int] = []

    def close(self) -> None:
        for array in self.arrays:
            assert self.sim.aclDestroyIntArray(array) == 0
        super().close()

    def int_array(self, values: Sequence[int]) -> int:
        handle = self.sim.aclCreateIntArray(scatter_calls.int64s(values), len(values))
        assert handle is not None
        self.arrays.append(handle)
        return int(handle)

    def arguments(self, tensors: Sequence[int | None], attributes: Attributes) -> Sequence[Any]:
        return (*tensors[:12], *attributes, *tensors[12:])


def bf16(values: Any) -> np.ndarray:
    """Codes of values that BF16 holds exactly."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


class Call:
    """A dense call; cos is 1, sin 0, gammas 1, the rotation the identity, epsilon 0 and every x 1, so that Q and K rows
    come out as ones. Arrays may be changed before ``prepare``, which uploads them and makes the tensors."""

    dtypes = DTYPES

    def __init__(
        self,
        device: Device,
        tokens: int = 3,
        heads: Sequence[int] = (2, 1, 1),
        blocks: int = 2,
        block_size: int = 4,
        slots: Sequence[int] | None = None,
        layouts: tuple[str, str] = ("TND", "TND"),
        rows: int = 16,
    ) -> None:
        self.device = device
        self.heads = tuple(heads)
        self.layouts = layouts
        self.epsilon = 0.0
        q, k, v = heads
        self.arrays: dict[str, np.ndarray] = {
            "qkv": bf16(np.ones((tokens, sum(heads), D))),
            "qGamma": np.ones(D, np.float32),
            "kGamma": np.ones(D, np.float32),
            "cosSin": np.repeat(np.float32([[1, 0]]), 64, axis=1).repeat(rows, axis=0),
            "slotMapping": np.array(range(tokens) if slots is None else slots, np.int32),
            "kCacheRef": np.full((blocks, k, block_size, D), 0xAA, np.uint8),
            "vCacheRef": np.full((blocks, v, block_size, D), 0x55, np.uint8),
            "kScaleCacheRef": np.full((blocks, k, block_size, 1), -1, np.float32),
            "queryStartLoc": np.array([0, tokens], np.int32),
            "seqLens": np.array([tokens], np.int32),
            "rotationOptional": bf16(np.eye(D)),
            "vScaleOptional": np.ones(v, np.float32),
            "qOut": np.full((tokens, q, D), 0xCC, np.uint8),
            "qScale": np.full((tokens, q), -2, np.float32),
        }
        """Token-major, whatever the layouts."""
        self.addresses: dict[str, int] = {}
        self.tensors: dict[str, int] = {}

    def stored(self, name: str) -> np.ndarray:
        """An array as the layout puts it in memory."""
        layout = self.layouts[0] if name == "qkv" else self.layouts[1] if name in ("qOut", "qScale") else "TND"
        array = self.arrays[name]
        return np.ascontiguousarray(array.swapaxes(0, 1)) if layout == "NTD" else array

    def prepare(self) -> Call:
        for name in NAMES:
            array = self.stored(name)
            self.addresses[name] = self.device.upload(array)
            self.tensors[name] = self.device.tensor(array.shape, self.dtypes[name], self.addresses[name])
        self.attributes = Attributes(
            self.device.int_array(self.heads), *(layout.encode() for layout in self.layouts), self.epsilon
        )
        return self

    def view(self, name: str, base: np.ndarray, strides: Sequence[int], offset: int = 0) -> int:
        """Makes a tensor a view of the flat contents of ``base``; returns the device address of the base."""
        address = self.device.upload(base)
        self.view_at(name, address, base.size, strides, offset)
        return address

    def view_at(self, name: str, address: int, elements: int, strides: Sequence[int], offset: int = 0) -> None:
        self.device.destroy(self.tensors[name])
        self.tensors[name] = self.device.tensor(
            self.stored(name).shape, self.dtypes[name], address, strides, offset, [elements]
        )

    @property
    def handles(self) -> list[int]:
        return [self.tensors[name] for name in NAMES]

    def phase1(self) -> tuple[int, int, int]:
        return self.device.phase1(self.handles, self.attributes)

    def run(self) -> int:
        if not self.tensors:
            self.prepare()
        return self.device.run(self.handles, self.attributes)

    def result(self, name: str) -> np.ndarray:
        """What is in memory now, token-major."""
        got = self.device.read(self.addresses[name], self.stored(name))
        return got.swapaxes(0, 1) if name.startswith("q") and self.layouts[1] == "NTD" else got

    def results(self) -> dict[str, np.ndarray]:
        return {name: self.result(name) for name in RESULTS}

    def is_untouched(self) -> bool:
        before = (self.arrays[name] for name in RESULTS)
        return all((got == old).all() for got, old in zip(self.results().values(), before, strict=True))


def one_hot(channels: Any, values: Any = 1.0) -> np.ndarray:
    """BF16 rows with one value each."""
    rows = np.zeros((*np.shape(channels), 128), np.float32)
    np.put_along_axis(rows, np.asarray(channels)[..., None], np.asarray(values, np.float32)[..., None], axis=-1)
    return bf16(rows)


def busy(device: Any, **options: Any) -> Any:
    """A call whose rows all differ."""
    call = Call(device, **options)
    shape = call.arrays["qkv"].shape
    call.arrays["qkv"][:] = np.random.default_rng(1).standard_normal(shape).astype(np.float32).view(np.uint32) >> 16
    call.arrays["cosSin"][:] = np.random.default_rng(2).uniform(-1, 1, call.arrays["cosSin"].shape)
    call.arrays["rotationOptional"][:] = bf16(np.random.default_rng(3).integers(-1, 2, (128, 128)) / 8)
    call.epsilon = 1e-6
    return call


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    for name, array in one.items():
        np.testing.assert_array_equal(array.view(np.uint8), other[name].view(np.uint8), name)
