# SPDX-License-Identifier: Apache-2.0
"""Thousands of random calls: the first status that check_call finds is what the simulator's phase 1 answers, and what
is predicted of a call that it accepts is what comes."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from typing import Any

import good_calls
import numpy as np
import pytest
import qkv_calls
import scatter_calls
from random_calls import random_call

import aclnn_kvcache as kv
from aclnn_kvcache.dtypes import BY_DTYPE, WITHOUT_DTYPE
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.rules.contracts import CONTRACTS

CALLS = 2000
CODE = re.compile(r"\bEZ\d{4}\b")
DEVICES: dict[str, Any] = {good_calls.SCATTER: scatter_calls, good_calls.QKV: qkv_calls}


def number_of(dtype: Any) -> int:
    return WITHOUT_DTYPE[dtype] if isinstance(dtype, str) else BY_DTYPE[dtype].acl_value


def encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def attributes_of(device: Any, operator: str, call: dict[str, Any]) -> Any:
    if operator == good_calls.SCATTER:
        return encoded(call["cache_layout"])
    layouts = [encoded(call[name]) for name in ("layout_qkv", "layout_q_out")]
    heads = None if call["head_nums"] is None else device.int_array(call["head_nums"])
    return qkv_calls.Attributes(heads, *layouts, call["epsilon"])


def answer(device: Any, operator: str, call: dict[str, Any]) -> tuple[Any, ...]:
    """Status, code in the message, workspace and whether the executor can be repeated, from the simulator."""
    handles = []
    for name in CONTRACTS[operator].tensors:
        spec = call[name]
        if spec is None:
            handles.append(None)
            continue
        number = number_of(spec.dtype)
        handles.append(device.tensor(spec.shape, number, 4096, spec.strides, spec.offset, [spec.storage], spec.format))
    status, size, executor = device.phase1(handles, attributes_of(device, operator, call))
    codes = CODE.findall(device.message() or "")
    repeatable = False
    if status == 0:
        repeatable = device.sim.aclSetAclOpExecutorRepeatable(ctypes.c_void_p(executor)) == 0
        device.discard(executor)
        device.message()  # of an executor that cannot
    for handle in filter(None, handles):
        device.destroy(handle)
    return status, codes[0] if codes else None, size if status == 0 else None, repeatable


def prediction(operator: str, call: dict[str, Any]) -> tuple[Any, ...]:
    """The same, from the rules."""
    first = next((finding for finding in kv.check_call(operator, **call) if finding.status), None)
    foreseen = predict(operator, **call)
    assert foreseen.answer == first
    if first is not None:
        return first.status, first.ez, None, False
    return 0, None, foreseen.workspace, foreseen.is_repeatable


def disagreements(device: Any, operator: str, seed: int, calls: int, statuses: Counter[int]) -> list[Any]:
    """Number, prediction, answer and call of each that differs."""
    found = []
    for number in range(calls):
        call = random_call(np.random.default_rng([seed, number]), operator)
        expected, got = prediction(operator, call), answer(device, operator, call)
        statuses[got[0]] += 1
        if expected[2] is not None and expected[2] >= 2**63:  # more than can be asked for
            expected, got = expected[:2], got[:2]
        elif got[2] == 0:  # nothing is launched, and there is nothing to say of repeating that
            expected, got = expected[:3], got[:3]
        if expected != got:
            found.append((number, expected, got, call))
    return found


@pytest.mark.usefixtures("reports")
@pytest.mark.parametrize("operator", sorted(DEVICES))
def test_first_status_is_the_answer(sim: Any, operator: str) -> None:
    device, statuses = DEVICES[operator].Device(sim), Counter[int]()
    found = disagreements(device, operator, 0, CALLS, statuses)
    device.close()
    assert found == []
    assert min(statuses[status] for status in (0, 161001, 161002, 561103)) > CALLS / 20
