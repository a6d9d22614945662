# SPDX-License-Identifier: Apache-2.0
"""Both operators on views of any strides that they take, on the host and on the device: what the oracle says, to the
byte, and no byte of the gaps changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from good_calls import QKV, SCATTER
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aclnn_kvcache as kv
from aclnn_kvcache.rules import scatter_pa_kv_cache_with_k_scale as scatter_rules
from aclnn_kvcache.rules.contracts import CONTRACTS

Array = np.ndarray[Any, Any]
E4M3, E5M2, BF16 = (np.dtype(name) for name in ("float8_e4m3fn", "float8_e5m2", "bfloat16"))
FLOAT, INT32, INT64 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.int64)


class View(NamedTuple):
    """How an array lies in a bigger one: the axes of that in another order, each sliced."""

    order: tuple[int, ...]
    index: tuple[slice, ...]
    base_shape: tuple[int, ...]

    def of(self, base: Any) -> Any:
        return base[self.index].transpose(*np.argsort(self.order).tolist())


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], steps: tuple[int, ...], *, keeps_last: bool) -> View:
    """``keeps_last``: the last axis stays where it is, and dense."""
    rank, free = len(shape), len(shape) - keeps_last
    order = (*draw(st.permutations(range(free))), *range(free, rank))
    index, base_shape = [], []
    for position, axis in enumerate(order):
        step = 1 if position >= free else draw(st.sampled_from(steps))
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        reach = max(shape[axis] - 1, 0) * abs(step) + 1
        first, last = (before, before + reach) if step > 0 else (before + reach - 1, before - 1)
        stop = first if not shape[axis] else last
        index.append(slice(first, None if stop < 0 else stop, step))
        base_shape.append(before + reach + after)
    return View(order, tuple(index), tuple(base_shape))


def raw(seed: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Any bytes, NaN patterns too, but numbers where they are computed with."""
    rng = np.random.default_rng(seed)
    if dtype in (BF16, FLOAT):
        return rng.uniform(-2, 2, shape).astype(dtype)
    return rng.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]


@st.composite
def scatter_calls(draw: st.DrawFn) -> dict[str, tuple[tuple[int, ...], np.dtype[Any], Array | None]]:
    n, dk, dv, b, s = (draw(st.integers(1, most)) for most in (3, 9, 9, 3, 4))
    slots = draw(st.permutations(range(b * s)))[: draw(st.integers(1, min(5, b * s)))]
    t, fp8 = len(slots), draw(st.sampled_from([E4M3, E5M2]))
    width = draw(st.sampled_from([INT32, INT64]))
    return {
        "key": ((t, n, dk), fp8, None),
        "value": ((t, n, dv), fp8, None),
        "key_cache": ((b, n, s, dk), fp8, None),
        "value_cache": ((b, n, s, dv), fp8, None),
        "slot_mapping": ((t,), width, np.array(slots, width)),
        "key_scale": ((t, n), FLOAT, None),
        "key_scale_cache": ((b, n, s, 1), FLOAT, None),
    }


@st.composite
def qkv_calls(draw: st.DrawFn) -> dict[str, tuple[tuple[int, ...], np.dtype[Any], Array | None]]:
    """The rotation only moves columns, so that sums are those of one product in any order."""
    q, k, b, s = (draw(st.integers(1, most)) for most in (3, 2, 3, 4))
    slots = draw(st.permutations(range(b * s)))[: draw(st.integers(1, min(5, b * s)))]
    t = len(slots)
    columns = np.random.default_rng(draw(st.integers(0, 9))).permutation(128)
    return {
        "qkv": ((t, q + 2 * k, 128), BF16, None),
        "q_gamma": ((128,), FLOAT, None),
        "k_gamma": ((128,), FLOAT, None),
        "cos_sin": ((t + 2, 128), FLOAT, None),
        "slot_mapping": ((t,), INT32, np.array(slots, INT32)),
        "k_cache": ((b, k, s, 128), E4M3, None),
        "v_cache": ((b, k, s, 128), E4M3, None),
        "k_scale_cache": ((b, k, s, 1), FLOAT, None),
        "query_start_loc": ((2,), INT32, np.array([0, t], INT32)),
        "seq_lens": ((1,), INT32, np.array([t + 1], INT32)),
        "rotation": ((128, 128), BF16, np.eye(128)[columns].astype(ml_dtypes.bfloat16)),
        "v_scale": ((k,), FLOAT, None),
    }


DENSE_LAST = {SCATTER: scatter_rules.DENSE_LAST, QKV: CONTRACTS[QKV].caches}
"""On the device; strided there these would be copied whole."""

CALLS = {SCATTER: scatter_calls(), QKV: qkv_calls()}


@st.composite
def laid_out(draw: st.DrawFn, operator: str, place: str) -> tuple[dict[str, Array], dict[str, View]]:
    """The bases of a call's arrays, and the views of them that it takes."""
    bases, laid = {}, {}
    for name, (shape, dtype, values) in draw(CALLS[operator]).items():
        steps = (1, 1, 2, 3) if place == "device" else (1, 1, 2, 3, -1, -2)
        keeps_last = place == "device" and name in DENSE_LAST[operator]
        view = draw(views(shape, steps, keeps_last=keeps_last))
        if name == "v_cache":  # on the device it needs the strides of k_cache
            view = laid["k_cache"]
        bases[name], laid[name] = raw(draw(st.integers(0, 2**32)), view.base_shape, dtype), view
        if values is not None:
            view.of(bases[name])[...] = values
    return bases, laid


def expected_of(operator: str, bases: dict[str, Array], laid: dict[str, View], options: dict[str, Any]) -> Any:
    """The bases after the call, and what else it gives, from the oracle."""
    after = {name: base.copy() for name, base in bases.items()}
    arguments = {name: laid[name].of(base) for name, base in after.items()}
    results = getattr(kv.oracle, operator)(**arguments, **options)
    for name in CONTRACTS[operator].caches:
        arguments[name][...] = getattr(results, name)
    return after, [getattr(results, name) for name in CONTRACTS[operator].outputs]


def check(session: kv.Session, operator: str, place: str, call: tuple[dict[str, Array], dict[str, View]]) -> None:
    bases, laid = call
    options = {"head_nums": head_nums(laid)} if operator == QKV else {}
    after, outputs = expected_of(operator, bases, laid, options)
    mine: dict[str, Any] = {
        name: session.array(base) if place == "device" else base.copy() for name, base in bases.items()
    }
    arguments = {name: laid[name].of(base) for name, base in mine.items()}
    results = getattr(session, operator)(**arguments, **options) or ()
    for result, wanted in zip(results, outputs, strict=True):
        got = result.numpy() if place == "device" else result
        assert got.tobytes() == wanted.tobytes()
    for name, base in mine.items():
        got = base.numpy() if place == "device" else base
        assert got.tobytes() == after[name].tobytes(), name


def head_nums(laid: dict[str, View]) -> tuple[int, int, int]:
    k, all_heads = (
        len(range(*laid[name].index[laid[name].order.index(1)].indices(10**6))) for name in ("k_cache", "qkv")
    )
    return all_heads - 2 * k, k, k


SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@SETTINGS
@given(laid_out(SCATTER, "host"))
def test_scatter_on_the_host(session: kv.Session, call: Any) -> None:
    check(session, SCATTER, "host", call)


@SETTINGS
@given(laid_out(QKV, "host"))
def test_the_fused_operator_on_the_host(session: kv.Session, call: Any) -> None:
    check(session, QKV, "host", call)


@SETTINGS
@given(laid_out(SCATTER, "device"))
def test_scatter_on_the_device(session: kv.Session, call: Any) -> None:
    check(session, SCATTER, "device", call)


@SETTINGS
@given(laid_out(QKV, "device"))
def test_the_fused_operator_on_the_device(session: kv.Session, call: Any) -> None:
    check(session, QKV, "device", call)
