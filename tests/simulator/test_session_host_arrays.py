# SPDX-License-Identifier: Apache-2.0
"""Scatter on NumPy arrays: values by hand, cases D2 to D5, D7 and D10."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclnn_kvcache as kv

E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)


def fp8(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any] = E4M3) -> np.ndarray[Any, Any]:
    """An FP8 array of one byte per row of the first axis, or of one byte."""
    rows = np.asarray(values, np.uint8)
    rows = rows.reshape(rows.shape + (1,) * (len(shape) - rows.ndim))
    return np.broadcast_to(rows, shape).copy().view(dtype)


@pytest.fixture
def call() -> dict[str, Any]:
    """Case D2's tensors: B=2, H=1, BS=4, Dk=Dv=8, T=3, with canaries in the caches."""
    return {
        "key": fp8([0x38, 0x40, 0x44], (3, 1, 8)),
        "value": fp8([0x30, 0x31, 0x32], (3, 1, 8)),
        "key_cache": fp8(0xAA, (2, 1, 4, 8)),
        "value_cache": fp8(0x55, (2, 1, 4, 8)),
        "slot_mapping": np.array([0, 2, 5], np.int32),
        "key_scale": np.array([[1], [2], [3]], np.float32),
        "key_scale_cache": np.full((2, 1, 4, 1), -1, np.float32),
    }


def caches(call: dict[str, Any]) -> tuple[bytes, ...]:
    return tuple(call[name].tobytes() for name in ("key_cache", "value_cache", "key_scale_cache"))


def refused(session: kv.Session, call: dict[str, Any], **options: Any) -> kv.AclnnParameterError:
    """The error of a call that must change nothing."""
    before = caches(call)
    with pytest.raises(kv.AclnnParameterError) as caught:
        session.scatter_pa_kv_cache_with_k_scale(**call, **options)
    assert caches(call) == before
    return caught.value


def test_rows_land_in_their_slots(session: kv.Session, call: dict[str, Any]) -> None:
    session.scatter_pa_kv_cache_with_k_scale(**call)
    key = np.full((2, 4, 8), 0xAA, np.uint8)
    key[0, 0], key[0, 2], key[1, 1] = 0x38, 0x40, 0x44
    value = np.full((2, 4, 8), 0x55, np.uint8)
    value[0, 0], value[0, 2], value[1, 1] = 0x30, 0x31, 0x32
    assert call["key_cache"].tobytes() == key.tobytes()
    assert call["value_cache"].tobytes() == value.tobytes()
    assert call["key_scale_cache"].ravel().tolist() == [1, -1, 2, -1, -1, 3, -1, -1]


def test_d2_padding_is_refused_unless_asked_for(session: kv.Session, call: dict[str, Any]) -> None:
    call["slot_mapping"][1] = -1
    text = str(refused(session, call))
    assert "row 1 holds slot -1" in text
    assert "0..7" in text
    assert 'padding="skip"' in text


def test_d2_padding_skips_the_row(session: kv.Session, call: dict[str, Any]) -> None:
    call["slot_mapping"][1] = -1
    session.scatter_pa_kv_cache_with_k_scale(**call, padding="skip")
    assert call["key_cache"].view(np.uint8)[:, 0, :, 0].ravel().tolist() == [0x38] + 4 * [0xAA] + [0x44] + 2 * [0xAA]
    assert call["key_scale_cache"].ravel().tolist() == [1, -1, -1, -1, -1, 3, -1, -1]


@pytest.mark.parametrize("padding", ["error", "skip"])
def test_other_negatives_are_always_refused(session: kv.Session, call: dict[str, Any], padding: str) -> None:
    call["slot_mapping"][2] = -2
    assert "row 2 holds slot -2" in str(refused(session, call, padding=padding))


def test_d3_off_by_one(session: kv.Session, call: dict[str, Any]) -> None:
    call["slot_mapping"][:] = [6, 7, 8]
    text = str(refused(session, call))
    assert "row 2 holds slot 8" in text
    assert "block 2 of 2, offset 0" in text
    assert "0..7" in text


def test_d4_duplicates(session: kv.Session, call: dict[str, Any]) -> None:
    call["slot_mapping"][:] = [1, 3, 1]
    text = str(refused(session, call))
    assert "rows 0 and 2 both hold slot 1" in text


def test_d5_scale_cache_made_with_none(session: kv.Session, call: dict[str, Any]) -> None:
    scales = np.zeros((2, 1, 4), np.float32)
    call["key_scale_cache"] = scales[..., None]
    assert call["key_scale_cache"].strides == (16, 16, 4, 0)
    call["slot_mapping"][:] = [0, 1, 6]
    call["key_scale"][2] = 2.5
    session.scatter_pa_kv_cache_with_k_scale(**call)
    assert scales[1, 0, 2] == 2.5


def test_d10_padded_caches(session: kv.Session) -> None:
    key_base = np.full((3, 2, 4, 16), 0xAA, np.uint8)
    value_base = np.full((3, 2, 4, 16), 0x55, np.uint8)
    scales = np.full((3, 2, 4, 1), -1, np.float32)
    session.scatter_pa_kv_cache_with_k_scale(
        key=fp8([0x38, 0x40], (2, 2, 8)),
        value=fp8([0x38, 0x40], (2, 2, 8)),
        key_cache=key_base.view(E4M3)[..., :8],
        value_cache=value_base.view(E4M3)[..., :8],
        slot_mapping=np.array([0, 11], np.int32),
        key_scale=np.array([[0.5, 0.25], [2, 4]], np.float32),
        key_scale_cache=scales,
    )
    for base, canary in ((key_base, 0xAA), (value_base, 0x55)):
        assert [(base == byte).sum() for byte in (0x38, 0x40, canary)] == [16, 16, 352]
        assert (base[0, :, 0, :8] == 0x38).all()
        assert (base[2, :, 3, :8] == 0x40).all()
    found = {tuple(index): float(scales[tuple(index)]) for index in np.argwhere(scales != -1).tolist()}
    assert found == {(0, 0, 0, 0): 0.5, (0, 1, 0, 0): 0.25, (2, 0, 3, 0): 2, (2, 1, 3, 0): 4}


def test_d7_a_missing_argument_is_161001(session: kv.Session, call: dict[str, Any]) -> None:
    call["key_scale"] = None
    error = refused(session, call)
    assert error.status == 161001
    assert "key_scale is None" in str(error)


def test_d7_unequal_formats_are_161002(session: kv.Session, call: dict[str, Any]) -> None:
    call["key_cache"] = call["key_cache"].view(E5M2)
    error = refused(session, call)
    assert error.status == 161002
    assert error.findings[0].arguments == ("key", "key_cache")
    assert "float8_e4m3fn and float8_e5m2" in str(error)


def test_d7_formats_of_key_and_value(session: kv.Session, call: dict[str, Any]) -> None:
    call["key"], call["key_cache"] = call["key"].view(E5M2), call["key_cache"].view(E5M2)
    error = refused(session, call)
    assert (error.status, error.findings[0].arguments) == (161002, ("key", "value"))


def test_d7_rank_comes_before_dtype(session: kv.Session, call: dict[str, Any]) -> None:
    call["key"] = np.zeros((3, 8), np.float32)
    error = refused(session, call)
    assert (error.status, error.findings[0].rule, error.findings[0].arguments) == (161002, "rank.key", ("key",))


def test_d7_slots_of_another_width(session: kv.Session, call: dict[str, Any]) -> None:
    call["slot_mapping"] = call["slot_mapping"].astype(np.int8)
    error = refused(session, call)
    assert (error.status, error.findings[0].arguments) == (161002, ("slot_mapping",))


def test_d7_scale_cache_with_two_columns(session: kv.Session, call: dict[str, Any]) -> None:
    call["key_scale_cache"] = np.zeros((2, 1, 4, 2), np.float32)
    error = refused(session, call)
    assert (error.status, error.findings[0].arguments) == (561103, ("key_scale_cache",))


def test_raw_bytes_are_not_taken_for_fp8(session: kv.Session, call: dict[str, Any]) -> None:
    call["key"] = call["key"].view(np.uint8)
    assert ".view(ml_dtypes.float8_e4m3fn)" in str(refused(session, call))


def test_the_other_byte_order_is_refused(session: kv.Session, call: dict[str, Any]) -> None:
    call["slot_mapping"] = call["slot_mapping"].astype(">i4")
    assert "byte order" in str(refused(session, call))


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
def test_nan_bytes_and_scale_payloads_move_unchanged(session: kv.Session, call: dict[str, Any], dtype: Any) -> None:
    for name in ("key", "value", "key_cache", "value_cache"):
        call[name] = call[name].view(dtype)
    call["key"].view(np.uint8)[0, 0] = [0x7F, 0xFF, 0x7C, 0x7D, 0xFE, 0x80, 0x00, 0x01]
    call["key_scale"].view(np.uint32)[0] = 0x7FA12345  # a signalling NaN
    session.scatter_pa_kv_cache_with_k_scale(**call)
    assert call["key_cache"].view(np.uint8)[0, 0, 0].tolist() == [0x7F, 0xFF, 0x7C, 0x7D, 0xFE, 0x80, 0x00, 0x01]
    assert call["key_scale_cache"].view(np.uint32)[0, 0, 0, 0] == 0x7FA12345


def test_inputs_of_any_strides(session: kv.Session, call: dict[str, Any]) -> None:
    call["key"] = np.repeat(call["key"], 2, axis=0)[::-2]
    call["slot_mapping"] = np.array([5, 0, 2, 0, 0, 0], np.int64)[::2]
    call["value"] = np.broadcast_to(call["value"][:1], (3, 1, 8))
    session.scatter_pa_kv_cache_with_k_scale(**call)
    assert call["key_cache"].view(np.uint8)[:, 0, :, 0].ravel().tolist() == [
        0x38,
        0xAA,
        0x40,
        0xAA,
        0xAA,
        0x44,
        0xAA,
        0xAA,
    ]
    assert (
        call["value_cache"].view(np.uint8)[:, 0, :, 0].ravel().tolist() == [0x30, 0x55] * 2 + [0x55, 0x30] + [0x55] * 2
    )


def test_a_cache_with_its_last_axis_strided_or_reversed_is_written_in_place(
    session: kv.Session, call: dict[str, Any]
) -> None:
    base = np.full((2, 1, 4, 16), 0xAA, np.uint8)
    call["key_cache"] = base.view(E4M3)[..., ::-2]
    call["key"].view(np.uint8)[0, 0] = range(8)
    session.scatter_pa_kv_cache_with_k_scale(**call)
    assert base[0, 0, 0].tolist() == [0xAA, 7, 0xAA, 6, 0xAA, 5, 0xAA, 4, 0xAA, 3, 0xAA, 2, 0xAA, 1, 0xAA, 0]


def test_no_tokens_is_a_no_op(session: kv.Session, call: dict[str, Any]) -> None:
    before = caches(call)
    for name in ("key", "value", "slot_mapping", "key_scale"):
        call[name] = call[name][:0]
    session.scatter_pa_kv_cache_with_k_scale(**call)
    assert caches(call) == before


def test_read_only_caches_are_refused(session: kv.Session, call: dict[str, Any]) -> None:
    call["value_cache"].flags.writeable = False
    with pytest.raises(kv.ArgumentError, match="value_cache: expected an array that can be written"):
        session.scatter_pa_kv_cache_with_k_scale(**call)


def test_caches_that_share_memory_are_refused(session: kv.Session, call: dict[str, Any]) -> None:
    call["value_cache"] = call["key_cache"]
    assert "key_cache, which is written, shares memory with value_cache" in str(refused(session, call))


def test_a_cache_broadcast_over_itself_is_refused(session: kv.Session, call: dict[str, Any]) -> None:
    call["key_cache"] = np.lib.stride_tricks.as_strided(call["key_cache"], strides=(0, 0, 8, 1))
    assert "key_cache reaches some bytes through more than one index" in str(refused(session, call))


def test_a_smaller_value_cache_is_refused(session: kv.Session, call: dict[str, Any]) -> None:
    call["value_cache"] = call["value_cache"][:1]
    error = refused(session, call)
    assert (error.status, error.findings[0].arguments) == (0, ("value_cache",))
    assert "CANN does not check this" in str(error)


@pytest.mark.parametrize("wrong", [[1, 2, 3], "slots", 5, np.ma.masked_array([0, 1, 2])])
def test_nothing_but_arrays_is_taken(session: kv.Session, call: dict[str, Any], wrong: Any) -> None:
    call["slot_mapping"] = wrong
    with pytest.raises(kv.ArgumentError, match="slot_mapping: expected a numpy"):
        session.scatter_pa_kv_cache_with_k_scale(**call)


def test_a_mix_of_host_and_device_is_refused_by_name(session: kv.Session, call: dict[str, Any]) -> None:
    call["key"] = session.array(call["key"])
    with pytest.raises(kv.ArgumentError, match=r"value, .* on the host and key on the device"):
        session.scatter_pa_kv_cache_with_k_scale(**call)


def test_wrong_options_are_refused(session: kv.Session, call: dict[str, Any]) -> None:
    with pytest.raises(kv.ArgumentError, match="padding: expected 'error' or 'skip', got 'ignore'"):
        session.scatter_pa_kv_cache_with_k_scale(**call, padding="ignore")
    with pytest.raises(kv.ArgumentError, match="stream: expected a Stream, got int"):
        session.scatter_pa_kv_cache_with_k_scale(**call, stream=3)
    assert "cache_layout must be None or 'BNBD'" in str(refused(session, call, cache_layout="BSND"))
    session.scatter_pa_kv_cache_with_k_scale(**call, cache_layout="BNBD")
