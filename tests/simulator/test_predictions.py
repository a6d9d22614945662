# SPDX-License-Identifier: Apache-2.0
"""What is predicted of a call is what the simulator's phase 1 does with it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

import good_calls
import pytest
import qkv_calls
import scatter_calls

from aclnn_kvcache import TensorSpec
from aclnn_kvcache.dtypes import BY_DTYPE
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.rules.contracts import CONTRACTS

ROOM = 1 << 14


def strided(spec: TensorSpec, steps: tuple[int, ...]) -> TensorSpec:
    """The tensor with its strides multiplied, in a bigger allocation."""
    strides = tuple(step * stride for step, stride in zip(steps, spec.strides, strict=True))
    return spec._replace(strides=strides, storage=ROOM)


def scatter_variants() -> list[dict[str, Any]]:
    """Every combination of some tensors being padded, or strided on the last axis."""
    good = good_calls.scatter()
    variants = []
    for names in itertools.product(*(((), (name,)) for name in good)):
        chosen = [name for part in names for name in part]
        for last in (1, 2):
            changes = {}
            for name in chosen:
                rank = len(good[name].shape)
                changes[name] = strided(good[name], (2,) * rank if rank == 1 else (*[2] * (rank - 1), last))
            variants.append({**good, **changes})
    return [*variants, good_calls.scatter(T=0), good_calls.scatter(B=1)]


def qkv_variants() -> list[dict[str, Any]]:
    good = good_calls.qkv()
    inputs = [name for name in CONTRACTS[good_calls.QKV].inputs if name != "rotation"]
    single = [{**good, name: strided(good[name], (2,) * len(good[name].shape))} for name in inputs]
    return [good, *single, {**good, **{name: variant[name] for name, variant in zip(inputs, single, strict=True)}}]


def ask(device: Any, operator: str, call: dict[str, Any], base: int, attributes: Any) -> tuple[int, bool]:
    """Workspace, and whether the executor can be made repeatable."""
    handles = []
    for name in CONTRACTS[operator].tensors:
        spec = call[name]
        number = BY_DTYPE[spec.dtype].acl_value
        handles.append(device.tensor(spec.shape, number, base, spec.strides, spec.offset, [spec.storage], spec.format))
    status, size, executor = device.phase1(handles, attributes)
    assert status == 0, device.message()
    is_repeatable = device.sim.aclSetAclOpExecutorRepeatable(ctypes.c_void_p(executor)) == 0
    device.discard(executor)
    return size, is_repeatable


CASES: list[tuple[str, Any, Callable[[], list[dict[str, Any]]]]] = [
    (good_calls.SCATTER, scatter_calls, scatter_variants),
    (good_calls.QKV, qkv_calls, qkv_variants),
]


@pytest.mark.parametrize(("operator", "calls", "variants"), CASES, ids=["scatter", "qkv"])
def test_workspace_and_repeatability(sim: Any, operator: str, calls: Any, variants: Any) -> None:
    device = calls.Device(sim)
    attributes = None
    if operator == good_calls.QKV:
        attributes = calls.Attributes(device.int_array((4, 2, 2)), b"TND", b"NTD", 1e-6)
    base = device.alloc(4 * ROOM)
    predictions = [predict(operator, **call) for call in variants()]
    got = [ask(device, operator, call, base, attributes) for call in variants()]
    launched = [index for index, prediction in enumerate(predictions) if prediction.path != "nothing"]
    wanted = [(prediction.workspace, prediction.is_repeatable) for prediction in predictions]
    assert [got[index] for index in launched] == [wanted[index] for index in launched]
    assert [size for size, _ in got] == [size for size, _ in wanted]
    assert len(set(wanted)) >= 5
    device.close()
