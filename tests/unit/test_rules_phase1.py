# SPDX-License-Identifier: Apache-2.0
"""The scatter rules give the status, message code and parameter names that CANN's own host code gave."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from aclnn_kvcache.dtypes import TABLE
from aclnn_kvcache.layout import dense_strides
from aclnn_kvcache.rules.finding import TensorSpec
from aclnn_kvcache.rules.scatter_pa_kv_cache_with_k_scale import NAMES, check

DATA = Path(__file__).parents[1] / "data" / "phase1_rev_a_scatter.jsonl.gz"

OURS = {
    "key": "key",
    "value": "value",
    "keyCache": "key_cache",
    "keyCacheRef": "key_cache",
    "key_cache": "key_cache",
    "valueCache": "value_cache",
    "valueCacheRef": "value_cache",
    "value_cache": "value_cache",
    "slotMapping": "slot_mapping",
    "slot_mapping": "slot_mapping",
    "keyScale": "key_scale",
    "key_scale": "key_scale",
    "keyScaleCache": "key_scale_cache",
    "keyScaleCacheRef": "key_scale_cache",
    "key_scale_cache": "key_scale_cache",
}

UNKNOWN_TO_NUMPY = np.dtype(np.complex64)  # in none of the allowed lists
DTYPES = {row.acl_name: row.dtype for row in TABLE}


def calls():
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    # The rules know no out-parameters.
    return [row for row in rows if not row["attrs"].keys() & {"nullWorkspaceSize", "nullExecutor"}]


def spec(tensor):
    if tensor is None:
        return None
    shape = tuple(tensor["shape"])
    strides = dense_strides(shape) if tensor["strides"] is None else tuple(tensor["strides"])
    storage = math.prod(shape if tensor["storage"] is None else tensor["storage"])
    return TensorSpec(shape, DTYPES.get(tensor["dtype"], UNKNOWN_TO_NUMPY), strides, tensor["offset"], storage)


def specs(call):
    return {OURS[name]: spec(tensor) for name, tensor in call["tensors"].items()}


CALLS = calls()


def test_the_measured_calls_cover_every_answer_of_the_decision_list():
    assert len(CALLS) == 966
    assert {(call["status"], call["ez"]) for call in CALLS} == {
        (0, None),
        (161001, None),
        (161002, "EZ1001"),
        (561103, "EZ0009"),
        (561103, "EZ0010"),
        (561103, "EZ0015"),
        (561103, "EZ9999"),
    }


@pytest.mark.parametrize("call", CALLS, ids=[str(call["id"]) for call in CALLS])
def test_first_finding_with_a_status_is_what_cann_answered(call):
    arguments = specs(call)
    assert set(arguments) == set(NAMES)
    answer = next((finding for finding in check(arguments) if finding.status), None)
    if call["status"] == 0:
        assert answer is None
        return
    assert answer is not None
    assert answer.status == call["status"]
    if call["status"] == 161001:  # CANN leaves no message
        assert arguments[answer.arguments[0]] is None
        return
    assert answer.ez == call["ez"]
    if call["about"]:
        assert answer.arguments == tuple(OURS[name] for name in call["about"])
    assert all(name in answer.message for name in answer.arguments)
