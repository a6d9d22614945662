# SPDX-License-Identifier: Apache-2.0
"""The M-RoPE scene, and what revisions share with A: worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import revision_calls as calls
import test_recorded_results as recorded
from qkv_calls import bf16, busy, one_hot, same

D = 128
T, H, W = 3, 5, 7


def widened(codes: np.ndarray) -> np.ndarray:
    """BF16 codes as floats."""
    return (codes.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize(
    "name", recorded.marked(n for n, (case, _) in recorded.CASES.items() if case["heads"][0] % 8 == 0)
)
def test_rope_gives_the_bytes_of_revision_a(device: Any, name: str) -> None:
    options, digest = recorded.CASES[name]
    options = {key: value for key, value in options.items() if key != "heads"} | {"k_heads": options["heads"][1]}
    call = calls.Call(device, rows=options["tokens"], **options)
    recorded.fill(call, name)
    assert call.run() == 0
    assert recorded.digest(call.results()) == digest


def axes(section: Sequence[int]) -> str:
    """The axis of each lane, as letters."""
    return {
        (24, 20, 20): "THW" * 20 + "TTTT",
        (11, 20, 20): "THW" * 20 + "TTTT",
        (22, 21, 21): "THW" * 21 + "T",
        (64, 0, 0): "T" * 64,
        (0, 0, 0): "T" * 64,
        (0, 2, 1): "THWTH" + "T" * 59,
        (0, 1, 3): "THWTTWTTW" + "T" * 55,
        (1, 0, 21): "TTW" * 21 + "T",
    }[tuple(section)]


SECTIONS = [(24, 20, 20), (11, 20, 20), (22, 21, 21), (64, 0, 0), (0, 0, 0), (0, 2, 1), (0, 1, 3), (1, 0, 21)]


class TestLanes:
    """The table's row p is p everywhere; Q rows come out as what their lanes were multiplied with."""

    @pytest.mark.parametrize("section", SECTIONS)
    def test_cosines(self, device: Any, section: Sequence[int]) -> None:
        call = calls.Call(device, "mrope", tokens=1)
        call.section = section
        call.arrays["cosSin"][:, :64] = np.arange(16)[:, None]
        call.arrays["mropePositionOptional"][:] = T, H, W
        assert call.run() == 0
        lanes = np.array([{"T": T, "H": H, "W": W}[axis] for axis in axes(section)], np.float32)
        for head in widened(call.result("qOut"))[0]:
            np.testing.assert_array_equal(head, np.tile(lanes, 2))
        assert call.result("kScaleCacheRef")[0, 0, 0, 0] == np.float32(lanes.max()) / np.float32(127)

    @pytest.mark.parametrize("section", SECTIONS)
    def test_sines(self, device: Any, section: Sequence[int]) -> None:
        call = calls.Call(device, "mrope", tokens=1)
        call.section = section
        call.arrays["cosSin"][:] = np.repeat([0, 1], 64) * np.arange(16)[:, None]
        call.arrays["mropePositionOptional"][:] = T, H, W
        assert call.run() == 0
        lanes = np.array([{"T": T, "H": H, "W": W}[axis] for axis in axes(section)], np.float32)
        np.testing.assert_array_equal(widened(call.result("qOut"))[0, 3], np.concatenate([-lanes, lanes]))

    def test_each_token_has_its_own(self, device: Any) -> None:
        call = calls.Call(device, "mrope", tokens=3)
        call.arrays["cosSin"][:, :64] = np.arange(16)[:, None]
        call.arrays["mropePositionOptional"][:] = [[1, 2, 3], [4, 5, 6], [15, 0, 9]]
        assert call.run() == 0
        got = widened(call.result("qOut"))[:, 0]
        np.testing.assert_array_equal(got[:, :4], [[1, 2, 3, 1], [4, 5, 6, 4], [15, 0, 9, 15]])

    def test_the_first_count_does_not_matter(self, device: Any) -> None:
        got = []
        for section in ((11, 20, 20), (24, 20, 20)):
            call = random_call(device)
            call.section = section
            assert call.run() == 0
            got.append(call.results())
        same(*got)
        assert len(np.unique(got[0]["qOut"])) > 500

    def test_equal_positions_are_rope(self, device: Any) -> None:
        """Scales of K times their divisor are the same maximum."""
        mrope, rope = random_call(device), random_call(device, "rope")
        mrope.arrays["mropePositionOptional"][:] = np.arange(5)[:, None]
        assert (mrope.run(), rope.run()) == (0, 0)
        scales = [call.result("kScaleCacheRef")[0, :, :4, 0] for call in (mrope, rope)]
        np.testing.assert_allclose(scales[0] * 127, scales[1] * 448, rtol=3e-7)


def random_call(device: Any, scene: str = "mrope") -> Any:
    call = calls.Call(device, scene, tokens=5, k_heads=2)
    random = busy(device, tokens=5, heads=(16, 2, 2))
    for name in ("qkv", "cosSin", "rotationOptional"):
        call.arrays[name][:] = random.arrays[name]
    if scene == "mrope":
        call.arrays["mropePositionOptional"][:] = np.random.default_rng(4).integers(0, 16, (5, 3))
    call.epsilon = 1e-6
    return call


def single(device: Any, row: np.ndarray, **changes: Any) -> tuple[np.ndarray, np.ndarray, np.float32]:
    """Q as floats, K as integers and the scale of K, of one row of BF16 codes."""
    call = calls.Call(device, "mrope", tokens=1)
    call.arrays["qkv"][0, :] = row
    call.epsilon = changes.pop("epsilon", 0.0)
    for name, array in changes.items():
        call.arrays[name][...] = array
    assert call.run() == 0
    scale = call.result("kScaleCacheRef")[0, 0, 0, 0]
    return call.result("qOut")[0, 0], call.result("kCacheRef")[0, 0, 0].view(np.int8), scale


def columns(*sums: Sequence[float]) -> np.ndarray:
    """A matrix under which a row of ones becomes these sums, and 127 in the last channel."""
    matrix = np.zeros((D, D), np.float32)
    for channel, parts in enumerate(sums):
        matrix[: len(parts), channel] = parts
    matrix[0, -1] = 127
    return bf16(matrix)


ONES = bf16(np.ones(D))


class TestInt8:
    def test_ones(self, device: Any) -> None:
        _, codes, scale = single(device, ONES)
        assert (codes == 127).all()
        assert scale == np.float32(1) / np.float32(127)

    def test_twice_rounded(self, device: Any) -> None:
        """With 127 in the row the scale is 1. In front of 65.5 and behind 64.5 FP16 has no number closer than those,
        which then are ties: casts of the floats themselves would give 65 each."""
        step = 2.0**-6
        matrix = columns((65.5, -step), (64.5, step), (-65.5, step), (-64.5, -step), (65.5, -2 * step))
        _, codes, scale = single(device, ONES, rotationOptional=matrix)
        assert scale == 1
        sums = np.float32([65.5 - step, 64.5 + step, -65.5 + step, -64.5 - step, 65.5 - 2 * step])
        assert np.rint(sums).tolist() == [65, 65, -65, -65, 65]
        assert codes[:5].tolist() == [66, 64, -66, -64, 66]
        assert codes[-1] == 127

    def test_ties_go_to_even(self, device: Any) -> None:
        matrix = columns((0.5,), (1.5,), (2.5,), (-0.5,), (-1.5,), (0.5, 2.0**-6), (126.5,), (-126.5,), (-127,))
        _, codes, scale = single(device, ONES, rotationOptional=matrix)
        assert scale == 1
        assert codes[:9].tolist() == [0, 2, 2, 0, -2, 1, 126, -126, -127]

    def test_all_zero(self, device: Any) -> None:
        q, codes, scale = single(device, np.zeros(D, np.uint16), epsilon=1e-6)
        assert not codes.any()
        assert scale.view(np.uint32) == 0
        assert not q.any()

    @pytest.mark.parametrize("code", [0x7FC0, 0x7F80])
    def test_nan_and_inf_spread(self, device: Any, code: int) -> None:
        row = ONES.copy()
        row[5] = code
        q, codes, scale = single(device, row, epsilon=1e-6)
        assert not codes.any()
        assert np.isnan(scale)
        assert not q.any(), "the output stage of the matrix unit makes 0 of a NaN"

    def test_inf_after_the_matrix(self, device: Any) -> None:
        matrix = columns((2.0**127, 2.0**127), (1,), (-(2.0**127), -(2.0**127)))
        q, codes, scale = single(device, ONES, rotationOptional=matrix)
        assert np.isposinf(scale)
        assert not codes.any(), "finite over Inf is 0, Inf over Inf a NaN"
        assert q[:3].tolist() == [0x7F7F, 0x3F80, 0xFF7F], "Q saturates"


def test_q_is_rounded_to_the_nearest_bf16(device: Any) -> None:
    matrix = columns((1, 2.0**-8), (1, 3 * 2.0**-8), (1, 2.0**-8, 2.0**-20), (-1, -(2.0**-8)))
    q, _, _ = single(device, ONES, rotationOptional=matrix)
    assert q[:4].tolist() == [0x3F80, 0x3F82, 0x3F81, 0xBF80]


def test_v_has_a_factor_for_each_channel(device: Any) -> None:
    call = calls.Call(device, "mrope", tokens=1, k_heads=2)
    factors = call.arrays["vScaleOptional"]
    factors[0, :4], factors[1, :4] = (2, -1, 17, 500), (0, 2.0**-9, 1, np.inf)
    assert call.run() == 0
    got = call.result("vCacheRef")[0, :, 0]
    assert got[0, :5].tolist() == [0x40, 0xB8, 0x58, 0x7E, 0x38]
    assert got[1, :5].tolist() == [0x00, 0x01, 0x38, 0x7E, 0x38]


def test_rows_go_to_their_slots(device: Any) -> None:
    call = calls.Call(device, "mrope", tokens=3, k_heads=2, slots=(6, 1, 3))
    channels = np.arange(3 * 20).reshape(3, 20) * 7 % D
    call.arrays["qkv"][:] = one_hot(channels)
    assert call.run() == 0
    got = call.results()
    np.testing.assert_array_equal(got["qOut"].argmax(-1), channels[:, :16])
    written = np.zeros(8, bool)
    for token, slot in enumerate((6, 1, 3)):
        block, row = divmod(slot, 4)
        written[slot] = True
        np.testing.assert_array_equal(got["kCacheRef"][block, :, row].argmax(-1), channels[token, 16:18])
        np.testing.assert_array_equal(got["vCacheRef"][block, :, row].argmax(-1), channels[token, 18:])
        assert (got["kCacheRef"][block, :, row].max(-1) == 127).all()
    for name, free in (("kCacheRef", 0xAA), ("vCacheRef", 0x55), ("kScaleCacheRef", -1)):
        by_slot = got[name].swapaxes(1, 2).reshape(8, -1)
        assert (by_slot[~written] == free).all()


def test_strided_positions_are_copied(device: Any) -> None:
    dense, strided = random_call(device), random_call(device).prepare()
    assert dense.run() == 0
    base = np.full((5, 3, 2), 99, np.int32)
    base[..., 0] = strided.arrays["mropePositionOptional"]
    strided.tensors["mropePositionOptional"] = device.tensor(
        (5, 3), calls.INT32, device.upload(base), (6, 2), 0, [base.size]
    )
    assert strided.run() == 0
    same(strided.results(), dense.results())
