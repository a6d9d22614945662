# SPDX-License-Identifier: Apache-2.0
"""The fused operator through the session: values by hand, device arrays, and what is refused before the launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
BF16 = np.dtype(ml_dtypes.bfloat16)
D = 128
HEADS = (2, 1, 1)
WRITTEN = ("k_cache", "v_cache", "k_scale_cache")


@pytest.fixture
def call() -> dict[str, Any]:
    """T=3, one batch without history, no rotation of any kind, canaries in the caches; B=2, S=4."""
    cos_sin = np.zeros((8, D), np.float32)
    cos_sin[:, : D // 2] = 1
    qkv = np.zeros((3, sum(HEADS), D), BF16)
    qkv[..., 3] = 2
    return {
        "qkv": qkv,
        "q_gamma": np.ones(D, np.float32),
        "k_gamma": np.ones(D, np.float32),
        "cos_sin": cos_sin,
        "slot_mapping": np.array([0, 6, 3], np.int32),
        "k_cache": np.full((2, 1, 4, D), 0xAA, np.uint8).view(E4M3),
        "v_cache": np.full((2, 1, 4, D), 0x55, np.uint8).view(E4M3),
        "k_scale_cache": np.full((2, 1, 4, 1), -1, np.float32),
        "query_start_loc": np.array([0, 3], np.int32),
        "seq_lens": np.array([3], np.int32),
        "rotation": np.eye(D).astype(BF16),
        "v_scale": np.array([1.5], np.float32),
    }


def run(session: kv.Session, call: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    return session.qkv_rms_norm_rope_cache_with_k_scale(**call, **{"head_nums": HEADS, "epsilon": 0.0, **options})


def codes(array: Any) -> np.ndarray[Any, Any]:
    return np.asarray(array).view(np.uint8)


def refused(session: kv.Session, call: dict[str, Any], error: type[Exception], **options: Any) -> Any:
    """The error of a call that must change nothing."""
    before = {name: call[name].tobytes() for name in WRITTEN if call[name] is not None}
    with pytest.raises(error) as caught:
        run(session, call, **options)
    assert {name: call[name].tobytes() for name in before} == before
    return caught.value


def test_one_hot_rows(session: kv.Session, call: dict[str, Any]) -> None:
    """x = 2 in lane 3: mean of squares 4/128, root sqrt(1/32); y = 2 * sqrt(32) = 11.3137 -> BF16 11.3125; the row's
    largest lane is always 0x7E, the scale 11.3125 / 448."""
    q_out, q_scale = run(session, call)
    assert (q_out.shape, q_scale.shape) == ((2, 3, D), (2, 3))
    row = np.zeros(D, np.uint8)
    row[3] = 0x7E
    assert (codes(q_out) == row).all()
    assert (q_scale == np.float32(11.3125) / np.float32(448)).all()
    keys = codes(call["k_cache"])
    assert (keys[0, 0, [0, 3]] == row).all()
    assert (keys[1, 0, 2] == row).all()
    assert (keys[0, 0, [1, 2]] == 0xAA).all()
    values = codes(call["v_cache"])
    assert values[0, 0, 0, 3] == 0x44  # 2 * 1.5 = 3
    assert (np.delete(values[0, 0, 0], 3) == 0).all()
    scale = np.float32(11.3125) / np.float32(448)
    assert call["k_scale_cache"].ravel().tolist() == [scale, -1, -1, scale, -1, -1, scale, -1]


def test_d1_saturating_v(session: kv.Session, call: dict[str, Any]) -> None:
    call["qkv"][0, 3] = 256
    call["v_scale"][0] = 1.81640625
    run(session, call)
    assert (codes(call["v_cache"])[0, 0, 0] == 0x7E).all()
    call["v_scale"][0] = -4
    run(session, call)
    assert (codes(call["v_cache"])[0, 0, 0] == 0xFE).all()


def test_a_row_of_zeros(session: kv.Session, call: dict[str, Any]) -> None:
    call["qkv"][1] = -0.0
    q_out, q_scale = run(session, call, epsilon=1e-6)
    assert (codes(q_out)[:, 1] == 0).all()
    assert (q_scale[:, 1] == 0).all()
    assert (codes(call["k_cache"])[1, 0, 2] == 0).all()


def test_positions_restart_with_each_batch_behind_its_history(session: kv.Session, call: dict[str, Any]) -> None:
    """Two batches of 1 and 2 tokens with 5 and 0 tokens of history: positions 5, 0, 1. Position p turns lane 3 into
    lane 67 where its cos is 0 and its sin 1."""
    call["query_start_loc"] = np.array([0, 1, 3], np.int32)
    call["seq_lens"] = np.array([6, 2], np.int32)
    call["cos_sin"][[5, 1], : D // 2] = 0
    call["cos_sin"][[5, 1], D // 2 :] = 1
    q_out, _ = run(session, call)
    assert [int(np.flatnonzero(codes(q_out)[0, token])[0]) for token in range(3)] == [67, 3, 67]


@pytest.mark.parametrize(
    ("layout_qkv", "layout_q_out"), [("TND", "TND"), ("TND", "NTD"), ("NTD", "NTD"), (None, None), ("", "")]
)
@pytest.mark.parametrize("given", [False, True])
def test_layouts_and_outputs(
    session: kv.Session, call: dict[str, Any], layout_qkv: str | None, layout_q_out: str | None, given: bool
) -> None:
    call["qkv"] = np.random.default_rng(3).standard_normal((3, 4, D)).astype(BF16)
    expected = kv.oracle.qkv_rms_norm_rope_cache_with_k_scale(**call, head_nums=HEADS)
    if layout_qkv == "NTD":
        call["qkv"] = call["qkv"].transpose(1, 0, 2)
    token_major = layout_q_out == "TND"
    outputs: dict[str, Any] = {}
    if given:
        rows = (3, 2) if token_major else (2, 3)
        # On the host the outputs may be any views, since the results are written back.
        outputs = {"q_out": np.zeros((*rows, 2 * D), E4M3)[..., ::2], "q_scale": np.zeros(rows[::-1], np.float32).T}
    q_out, q_scale = run(session, call, epsilon=1e-6, layout_qkv=layout_qkv, layout_q_out=layout_q_out, **outputs)
    if given:
        assert q_out is outputs["q_out"]
        assert q_scale is outputs["q_scale"]
    want = expected.q_out.transpose(1, 0, 2) if token_major else expected.q_out
    assert kv.compare(q_out, want, "fp8")
    assert kv.compare(q_scale, expected.q_scale.T if token_major else expected.q_scale, "relative")


def test_device_arrays_are_asynchronous(session: kv.Session, call: dict[str, Any], held: Any) -> None:
    expected = kv.oracle.qkv_rms_norm_rope_cache_with_k_scale(**call, head_nums=HEADS, epsilon=0.0)
    device = {name: session.array(array) for name, array in call.items()}
    q_out, q_scale = run(session, device)
    assert not session.stream.query()
    held.aclsim_release_streams()
    assert kv.compare(q_out.numpy(), expected.q_out, "fp8")
    assert kv.compare(q_scale.numpy(), expected.q_scale, "relative")
    for name in WRITTEN:
        assert kv.compare(device[name].numpy(), getattr(expected, name), "exact", before=call[name])


@pytest.mark.parametrize(
    "head_nums", [[2, 1, 1], np.array([2, 1, 1], np.int32), np.array([2, 1, 1]), tuple(np.int64(n) for n in HEADS)]
)
def test_head_nums_are_any_sequence_of_integers(session: kv.Session, call: dict[str, Any], head_nums: Any) -> None:
    assert run(session, call, head_nums=head_nums)[0].shape == (2, 3, D)


@pytest.mark.parametrize("head_nums", [2, "211", (2.0, 1, 1), (True, 1, 1), [[2, 1, 1]], np.array([2.0, 1, 1])])
def test_other_head_nums_are_refused(session: kv.Session, call: dict[str, Any], head_nums: Any) -> None:
    assert "head_nums: expected a sequence of three integers" in str(
        refused(session, call, kv.ArgumentError, head_nums=head_nums)
    )


def replace(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def apply(call: dict[str, Any]) -> None:
        call[name] = change(call[name])

    return apply


@pytest.mark.parametrize(
    ("change", "status", "argument"),
    [
        (replace("v_scale", lambda a: None), 161001, "v_scale"),
        (replace("rotation", lambda a: None), 161001, "rotation"),
        (replace("qkv", lambda a: a[:0]), 161002, "qkv"),
        (replace("qkv", lambda a: a.astype(np.float32)), 161002, "qkv"),
        (replace("q_gamma", lambda a: a.astype(BF16)), 161002, "q_gamma"),
        (replace("slot_mapping", lambda a: a.astype(np.int64)), 161002, "slot_mapping"),
        (replace("qkv", lambda a: a[..., :64]), 161002, "qkv"),
        (replace("qkv", lambda a: a[:, :3]), 161002, "qkv"),
        (replace("cos_sin", lambda a: a[:, :64]), 161002, "cos_sin"),
        (replace("k_scale_cache", lambda a: a[:1]), 161002, "k_scale_cache"),
        (replace("v_cache", lambda a: a[:1]), 161002, "v_cache"),
        # What CANN lets through:
        (replace("slot_mapping", lambda a: np.array([0, -1, 5], np.int32)), 0, "slot_mapping"),
        (replace("slot_mapping", lambda a: np.array([0, 8, 5], np.int32)), 0, "slot_mapping"),
        (replace("slot_mapping", lambda a: np.array([5, 0, 5], np.int32)), 0, "slot_mapping"),
        (replace("query_start_loc", lambda a: np.array([1, 3], np.int32)), 0, "query_start_loc"),
        (replace("query_start_loc", lambda a: np.array([0, 2], np.int32)), 0, "query_start_loc"),
        (replace("seq_lens", lambda a: np.array([2], np.int32)), 0, "seq_lens"),
        (replace("seq_lens", lambda a: np.array([9], np.int32)), 0, "seq_lens"),
        (replace("seq_lens", lambda a: np.array([-1], np.int32)), 0, "seq_lens"),
    ],
)
def test_wrong_arguments(
    session: kv.Session, call: dict[str, Any], change: Callable[[dict[str, Any]], None], status: int, argument: str
) -> None:
    change(call)
    error = refused(session, call, kv.AclnnParameterError)
    assert error.status == status
    assert argument in error.findings[0].arguments
    assert argument in str(error)


def test_d2_a_negative_slot_never_reaches_the_device(session: kv.Session, call: dict[str, Any], sim: Any) -> None:
    call["slot_mapping"] = np.array([0, -1, 5], np.int32)
    launches = sim.counter("ACLSIM_KERNEL_LAUNCHES")
    text = str(refused(session, call, kv.AclnnParameterError))
    assert "row 1 holds slot -1" in text
    assert "0..7" in text
    assert sim.counter("ACLSIM_KERNEL_LAUNCHES") == launches


@pytest.mark.parametrize(
    ("options", "status", "argument"),
    [
        ({"head_nums": None}, 161001, "head_nums"),
        ({"head_nums": (2, 1)}, 161002, "head_nums"),
        ({"head_nums": (2, 0, 1)}, 161002, "head_nums"),
        ({"head_nums": (1, 2, 1)}, 161002, "head_nums"),
        ({"layout_qkv": "tnd"}, 161002, "layout_qkv"),
        ({"layout_q_out": "BSND"}, 161002, "layout_q_out"),
        ({"layout_qkv": "NTD", "layout_q_out": "TND"}, 161002, "layout_q_out"),
        ({"epsilon": float("nan")}, 0, "epsilon"),
        ({"epsilon": -1.0}, 0, "epsilon"),
        ({"q_out": np.zeros((2, 3, 64), E4M3)}, 161002, "q_out"),
        ({"q_scale": np.zeros((3, 2), np.float32)}, 161002, "q_scale"),
        ({"q_scale": np.zeros((2, 3), np.float16)}, 161002, "q_scale"),
    ],
)
def test_wrong_options(
    session: kv.Session, call: dict[str, Any], options: dict[str, Any], status: int, argument: str
) -> None:
    error = refused(session, call, kv.AclnnParameterError, **options)
    assert error.status == status
    assert argument in error.findings[0].arguments


def test_outputs_and_caches_that_share_memory_are_refused(session: kv.Session, call: dict[str, Any]) -> None:
    q_out = call["k_cache"].reshape(-1)[: 6 * D].reshape(2, 3, D)
    assert "shares memory with q_out" in str(refused(session, call, kv.AclnnParameterError, q_out=q_out))
    call["v_cache"] = call["k_cache"]
    assert "shares memory with v_cache" in str(refused(session, call, kv.AclnnParameterError))


def test_given_outputs_must_be_dense_on_the_device(session: kv.Session, call: dict[str, Any]) -> None:
    device = {name: session.array(array) for name, array in call.items()}
    wide = session.array(np.zeros((2, 3, 2 * D), E4M3))
    with pytest.raises(kv.AclnnParameterError, match="q_out"):
        run(session, device, q_out=wide[..., :D])


def test_kv_caches_of_different_strides_are_refused_as_cann_does(session: kv.Session, call: dict[str, Any]) -> None:
    device = {name: session.array(array) for name, array in call.items()}
    device["k_cache"] = session.array(np.zeros((2, 1, 4, D + 32), E4M3))[..., :D]
    with pytest.raises(kv.AclnnParameterError) as caught:
        run(session, device)
    assert caught.value.status == 561103
    assert set(caught.value.findings[0].arguments) == {"k_cache", "v_cache"}


@pytest.mark.usefixtures("reports")
def test_a_stray_slot_on_the_device_is_a_fault_at_the_synchronise(session: kv.Session, call: dict[str, Any]) -> None:
    device = {name: session.array(array) for name, array in call.items()}
    device["slot_mapping"] = session.array(np.array([0, 2**30, 5], np.int32))
    run(session, device)
    with pytest.raises(kv.DeviceFaultError) as caught:
        session.stream.synchronize()
    assert caught.value.status == 507015


def test_a_number_that_no_float_holds(session: kv.Session, call: dict[str, Any]) -> None:
    error = refused(session, call, kv.ArgumentError, epsilon=10**400)
    assert "epsilon: expected a number that a float holds" in str(error)
