# SPDX-License-Identifier: Apache-2.0
"""Random calls as TensorSpecs: good ones of both operators, with a few tensors and attributes spoilt."""

from __future__ import annotations

from typing import Any

import good_calls
import numpy as np

from aclnn_kvcache import TensorSpec
from aclnn_kvcache.dtypes import FORMATS, TABLE, WITHOUT_DTYPE
from aclnn_kvcache.rules.contracts import CONTRACTS

DTYPES = [*(row.acl_name for row in TABLE), *WITHOUT_DTYPE]
MOST_RANK = 25
"""What an aclTensor holds; more than that is undefined."""

EXTREMES = (0, 1, -1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 3, 2**40, 2**62, 2**63 - 1, -(2**63))


def integer(rng: np.random.Generator) -> int:
    """Small, at a limit of some width, or anything in 64 bits."""
    kind = rng.random()
    if kind < 0.6:
        return int(rng.integers(-3, 20))
    if kind < 0.9:
        return int(rng.choice(np.array(EXTREMES, object)))
    return int(rng.integers(-(2**63), 2**63 - 1, endpoint=True))


def integers(rng: np.random.Generator, count: int) -> tuple[int, ...]:
    return tuple(integer(rng) for _ in range(count))


def replaced(rng: np.random.Generator, values: tuple[int, ...]) -> tuple[int, ...]:
    """The values with one of them another."""
    if not values:
        return values
    axis = int(rng.integers(len(values)))
    return (*values[:axis], integer(rng), *values[axis + 1 :])


def dense(spec: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """The tensor with another shape, its strides in 64 bits."""
    strides = [(step + 2**63) % 2**64 - 2**63 for step in TensorSpec(shape, spec.dtype).strides]
    return spec._replace(shape=shape, strides=tuple(strides))


def spoilt(rng: np.random.Generator, spec: TensorSpec) -> TensorSpec | None:
    """The tensor with one thing changed, or NULL."""
    kind = int(rng.integers(12))
    if kind == 0:
        return None
    if kind == 1:
        rank = int(rng.choice([0, MOST_RANK, *range(6)]))
        return dense(spec, integers(rng, rank))
    if kind in (2, 3):
        return dense(spec, replaced(rng, spec.shape))
    if kind == 4:
        return TensorSpec(spec.shape, rng.choice(DTYPES), spec.strides, spec.offset, spec.storage, spec.format)
    if kind == 5:
        return spec._replace(format=int(rng.choice(list(FORMATS.values()))))
    if kind == 6:
        return spec._replace(offset=integer(rng))
    if kind == 7:
        return spec._replace(offset=spec.storage + int(rng.integers(-1, 2)))
    if kind == 8:
        return spec._replace(storage=integer(rng))
    if kind == 9:
        return spec._replace(strides=replaced(rng, spec.strides))
    if kind == 10:  # a view with room around every row
        factor = int(rng.integers(2, 5))
        strides = (*(step * factor for step in spec.strides[:-1]), *spec.strides[-1:])
        return spec._replace(strides=strides, storage=1 << 20)
    return spec._replace(strides=integers(rng, len(spec.shape)))


def scatter_call(rng: np.random.Generator) -> dict[str, Any]:
    t, n, dk, dv, b, s = (int(rng.integers(low, 7)) for low in (0, 1, 1, 1, 1, 1))
    call = good_calls.scatter(T=t, N=n, Dk=dk, Dv=dv, B=b, S=s)
    call["cache_layout"] = rng.choice(np.array([None, "BNBD", "ND", ""], object))
    return call


def qkv_call(rng: np.random.Generator) -> dict[str, Any]:
    k = int(rng.integers(1, 5))
    layouts = [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD")][int(rng.integers(3))]
    call = good_calls.qkv(
        T=int(rng.integers(1, 6)),
        heads=(int(rng.choice([1, 4, 64, 127])), k, k),
        batches=int(rng.integers(1, 4)),
        layout_qkv=layouts[0],
        layout_q_out=layouts[1],
    )
    if rng.random() < 0.1:
        call["head_nums"] = integers(rng, int(rng.choice([0, 2, 3, 3, 3, 4])))
    if rng.random() < 0.02:
        call["head_nums"] = None
    for name in ("layout_qkv", "layout_q_out"):
        if rng.random() < 0.05:
            call[name] = rng.choice(np.array([None, "", "TND", "NTD", "tnd", "BSH"], object))
    call["epsilon"] = float(rng.choice([1e-6, 0.0, -1.0, np.inf, np.nan, 1e300]))
    return call


CALLS = {good_calls.SCATTER: scatter_call, good_calls.QKV: qkv_call}


def random_call(rng: np.random.Generator, operator: str) -> dict[str, Any]:
    call = CALLS[operator](rng)
    for name in rng.choice(CONTRACTS[operator].tensors, int(rng.choice([0, 1, 1, 1, 2, 2, 3, 5]))):
        if call[name] is not None:
            call[name] = spoilt(rng, call[name])
    return call
