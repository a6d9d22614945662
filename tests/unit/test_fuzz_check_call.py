# SPDX-License-Identifier: Apache-2.0
"""Whatever is described, check_call and predict answer with findings or an ArgumentError, and soon."""

from __future__ import annotations

from typing import Any

import good_calls
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_calls import DTYPES, random_call

import aclnn_kvcache as kv
from aclnn_kvcache.preflight import predict
from aclnn_kvcache.rules.contracts import CONTRACTS
from aclnn_kvcache.rules.finding import Finding

INTEGERS = st.one_of(
    st.integers(-4, 70),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**40, -(10**40)]),
)
RANKS = st.sampled_from([0, 1, 2, 3, 4, 4, 5, 30])


@st.composite
def specs(draw: st.DrawFn) -> kv.TensorSpec:
    rank = draw(RANKS)
    numbers = st.lists(INTEGERS, min_size=rank, max_size=rank)
    return kv.TensorSpec(
        draw(numbers),
        draw(st.sampled_from(DTYPES)),
        draw(st.none() | numbers),
        draw(INTEGERS),
        draw(st.none() | INTEGERS),
        draw(st.sampled_from([2, 0, 29, -1, 10**9])),
    )


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Views that lie about their memory as NumPy lets them; nobody reads them, but for slots and batches."""
    dtype = draw(
        st.sampled_from([np.uint8, np.int32, np.int64, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16])
    )
    rank = draw(st.sampled_from([0, 1, 2, 3, 4, 5, 25]))
    shape = draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    if rank == 1:
        return np.full(shape, draw(st.integers(0, 100)), dtype)
    strides = draw(st.lists(st.integers(-(10**12), 10**12), min_size=rank, max_size=rank))
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides)


ODD = st.sampled_from([None, 3, "text", 2.5, [1, 2], object(), np.float32(1), np.ma.zeros(2)])
ATTRIBUTES = st.one_of(
    st.none(),
    INTEGERS,
    st.text(max_size=4),
    st.floats(),
    st.lists(INTEGERS, max_size=4),
    st.sampled_from(["TND", "NTD"]),
)


def judged(operator: str, call: dict[str, Any]) -> list[Finding]:
    try:
        findings = kv.check_call(operator, **call)
    except kv.ArgumentError:
        with pytest.raises(kv.ArgumentError):
            predict(operator, **call)
        return []
    assert isinstance(findings, list)
    assert all(isinstance(finding, Finding) for finding in findings)
    assert str(predict(operator, **call))
    return findings


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(sorted(CONTRACTS)))
def test_anything_in_place_of_good_arguments(data: st.DataObject, operator: str) -> None:
    call = good_calls.GOOD[operator]()
    for name in data.draw(st.lists(st.sampled_from(CONTRACTS[operator].parameters), max_size=4)):
        kinds = specs() | arrays() | ODD if name in CONTRACTS[operator].tensors else ATTRIBUTES
        call[name] = data.draw(kinds, label=name)
    judged(operator, call)


@settings(max_examples=200, deadline=None)
@given(specs())
def test_any_description_says_what_it_is(spec: kv.TensorSpec) -> None:
    assert spec.is_empty is (0 in spec.shape)
    low, high = spec.reach
    assert (low == high) is spec.is_empty or min(spec.shape, default=1) < 0
    assert repr(spec).startswith("TensorSpec(")


@pytest.mark.parametrize("operator", sorted(CONTRACTS))
def test_random_calls(operator: str) -> None:
    found = [judged(operator, random_call(np.random.default_rng([1, number]), operator)) for number in range(1000)]
    assert sum(map(bool, found)) > 600


def test_of_more_axes_than_a_cache_has_no_overlap_is_worked_out() -> None:
    """It would take minutes; that there are too many is all there is to say."""
    strides = np.random.default_rng(25).integers(10**3, 10**6, 25).tolist()
    cache = kv.TensorSpec((3,) * 25, "float8_e4m3fn", strides, storage=10**10)
    findings = kv.check_call(good_calls.SCATTER, **good_calls.scatter(key_cache=cache))
    assert [finding.rule for finding in findings] == ["rank.key_cache"]
