# SPDX-License-Identifier: Apache-2.0
"""The rules give the status, message code and parameter names that CANN's own host code gave."""

import gzip
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from aclnn_kvcache.dtypes import TABLE
from aclnn_kvcache.layout import dense_strides
from aclnn_kvcache.rules import qkv_rms_norm_rope_cache_with_k_scale as qkv
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as scatter
from aclnn_kvcache.rules.finding import TensorSpec

DATA = Path(__file__).parents[1] / "data"

# What CANN's messages call by other names than those of tensors.
ABOUT = {"D": "qkv", "Nk": "head_nums", "Nv": "head_nums", "Nq+Nk": "head_nums", "Nq+Nk+Nv": "head_nums"}

UNKNOWN_TO_NUMPY = np.dtype(np.complex64)  # in none of the allowed lists
DTYPES = {row.acl_name: row.dtype for row in TABLE}


def calls(operator):
    with gzip.open(DATA / f"phase1_rev_a_{operator}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    # The rules know no out-parameters.
    return [row for row in rows if not row["attrs"].keys() & {"nullWorkspaceSize", "nullExecutor"}]


def ours(name):
    """This package's name: keyCacheRef is key_cache, rotationOptional is rotation."""
    short = re.sub("(Ref|Optional)$", "", name)
    return ABOUT.get(name) or re.sub("(?<=[a-z])(?=[A-Z])", "_", short).lower()


def spec(tensor):
    if tensor is None:
        return None
    shape = tuple(tensor["shape"])
    strides = dense_strides(shape) if tensor["strides"] is None else tuple(tensor["strides"])
    storage = math.prod(shape if tensor["storage"] is None else tensor["storage"])
    dtype = DTYPES.get(tensor["dtype"], UNKNOWN_TO_NUMPY)
    return TensorSpec(shape, dtype, strides, tensor["offset"], storage, tensor["format"])


def arguments_of(call):
    tensors = {ours(name): spec(tensor) for name, tensor in call["tensors"].items()}
    if call["op"] == "scatter":
        assert set(tensors) == set(scatter.NAMES)
        return tensors, [tensors]
    assert set(tensors) == set(qkv.TENSORS)
    attributes = [call["attrs"][name] for name in ("headNums", "layoutQkv", "layoutQOut", "epsilon")]
    return {**tensors, "head_nums": attributes[0]}, [tensors, *attributes]


CALLS = {operator: calls(operator) for operator in ("scatter", "qkv")}
CHECKS = {"scatter": scatter.check, "qkv": qkv.check}


def test_the_measured_calls_cover_every_answer_of_the_decision_list():
    answers = {name: {(call["status"], call["ez"]) for call in calls} for name, calls in CALLS.items()}
    assert {name: len(calls) for name, calls in CALLS.items()} == {"scatter": 966, "qkv": 966}
    assert answers["scatter"] == {
        (0, None),
        (161001, None),
        (161002, "EZ1001"),
        (561103, "EZ0009"),
        (561103, "EZ0010"),
        (561103, "EZ0015"),
        (561103, "EZ9999"),
    }
    # Missing: 561103 with EZ1001 and with EZ0009 (rows 19a and 21), for which test_rules_qkv.py has calls by hand.
    assert answers["qkv"] == {
        (0, None),
        (161001, "EZ0026"),
        *((161002, f"EZ00{number:02}") for number in (9, 10, 12, 17, 20, 25, 26, 27)),
        *((561103, f"EZ00{number:02}") for number in (26, 27, 28)),
        (561103, "EZ9999"),
    }


@pytest.mark.parametrize(
    "call",
    [call for calls in CALLS.values() for call in calls],
    ids=[f"{name}-{call['id']}" for name, calls in CALLS.items() for call in calls],
)
def test_first_finding_with_a_status_is_what_cann_answered(call):
    named, arguments = arguments_of(call)
    answer = next((finding for finding in CHECKS[call["op"]](*arguments) if finding.status), None)
    if call["status"] == 0:
        assert answer is None
        return
    assert answer is not None
    assert (answer.status, answer.ez) == (call["status"], call["ez"])
    if call["status"] == 161001:
        assert named[answer.arguments[0]] is None
    if call["about"]:
        assert answer.arguments == tuple(dict.fromkeys(map(ours, call["about"])))
    assert all(name in answer.message for name in answer.arguments)
