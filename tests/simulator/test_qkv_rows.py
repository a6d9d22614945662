# SPDX-License-Identifier: Apache-2.0
"""What the fused operator makes of one row, worked out by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import qkv_calls as calls
from qkv_calls import ONE_HOT, bf16, one_hot


@pytest.fixture
def device(sim: Any) -> Iterator[Any]:
    device = calls.Device(sim)
    yield device
    device.close()


def single(device: Any, row: np.ndarray, **changes: Any) -> tuple[np.ndarray, np.float32, Any]:
    """Codes and scale of one row (as BF16 codes) taken as a row of K; also checks that Q gives the same."""
    call = calls.Call(device, tokens=1, heads=(1, 1, 1))
    call.arrays["qkv"][0, :] = row
    call.epsilon = changes.pop("epsilon", 0.0)
    for name, array in changes.items():
        call.arrays[name][...] = array
    assert call.run() == 0
    got = call.results()
    codes, scale = got["kCacheRef"][0, 0, 0], got["kScaleCacheRef"][0, 0, 0, 0]
    np.testing.assert_array_equal(got["qOut"][0, 0], codes)
    np.testing.assert_array_equal(got["qScale"][0, 0], scale)
    return codes, scale, call


class TestRows:
    def test_ones(self, device: Any) -> None:
        """Mean 1, root 1, every y 1: the scale is 1/448 and every code the greatest."""
        codes, scale, call = single(device, bf16(np.ones(128)))
        assert (codes == 0x7E).all()
        assert scale == np.float32(1) / np.float32(448)
        got = call.results()
        assert (got["vCacheRef"][0, 0, 0] == 0x38).all()
        assert (got["kCacheRef"][0, 0, 1:] == 0xAA).all(), "other rows stay"
        assert (got["kCacheRef"][1] == 0xAA).all()
        assert (got["vCacheRef"][0, 0, 1:] == 0x55).all()
        assert (got["kScaleCacheRef"][0, 0, 1:] == -1).all()

    @pytest.mark.parametrize("channel", [0, 1, 63, 64, 127])
    @pytest.mark.parametrize("value", [1.0, -3.0, 2.0**-40, 2.0**40])
    def test_one_hot(self, device: Any, channel: int, value: float) -> None:
        codes, scale, _ = single(device, one_hot(channel, value))
        wanted = np.zeros(128, np.uint8)
        wanted[channel] = 0x7E if value > 0 else 0xFE
        assert scale == np.float32(ONE_HOT) / np.float32(448)
        np.testing.assert_array_equal(codes & 0x7F, wanted & 0x7F)
        assert codes[channel] == wanted[channel]

    def test_gamma_comes_last(self, device: Any) -> None:
        """With 448 among the gammas of a row of ones the scale is 1 and codes are those of the gammas."""
        gammas = np.tile(np.float32([448, 1, -2, 0.5, 0, 17, -18, 2**-9]), 16)
        codes, scale, _ = single(device, bf16(np.ones(128)), qGamma=gammas, kGamma=gammas)
        assert scale == 1
        # 17 is a tie of 16 (0x58) and 18 (0x59).
        assert codes[:8].tolist() == [0x7E, 0x38, 0xC0, 0x30, 0x00, 0x58, 0xD9, 0x01]
        np.testing.assert_array_equal(codes, np.tile(codes[:8], 16))

    def test_epsilon_is_added_to_the_mean(self, device: Any) -> None:
        codes, scale, _ = single(device, bf16(np.ones(128)), epsilon=3.0)
        assert (codes == 0x7E).all()
        assert scale == np.float32(0.5) / np.float32(448)

    def test_the_sum_is_a_tree_over_neighbouring_lanes(self, device: Any) -> None:
        """Lane 0 holds 2^24, lanes 1 to 3 hold 1: (2^24 + 1) + (1 + 1) is 2^24 + 2, where adding one after the other
        would leave 2^24. The mean decides whether y, scaled back up by gamma, is above a tie of BF16 or not."""
        row = np.zeros(128, np.float32)
        row[0], row[1:4] = 4096, 1
        mean = np.float32(2**24 + 2) / np.float32(128)
        y = np.float32(4096) / np.sqrt(mean)
        other = np.float32(4096) / np.sqrt(np.float32(2**24) / np.float32(128))
        assert y < other
        # A gamma under which the two fall on different sides of a tie between two BF16 numbers.
        gamma = next(
            g
            for g in np.linspace(1, 2, 200_000, dtype=np.float32)
            if (y * g).view(np.uint32) + 0x7FFF >> 16 != (other * g).view(np.uint32) + 0x7FFF >> 16
            and (y * g).view(np.uint32) & 0xFFFF != 0x8000
            and (other * g).view(np.uint32) & 0xFFFF != 0x8000
        )
        rounded = np.uint32(((y * gamma).view(np.uint32) + 0x7FFF) & 0xFFFF0000).view(np.float32)
        _, scale, _ = single(device, bf16(row), qGamma=gamma, kGamma=gamma)
        assert scale == rounded / np.float32(448)

    def test_halves_are_turned(self, device: Any) -> None:
        """Lanes are 1, and 3 times as much in the upper half by gamma: 1*c - 3*s and 3*c + 1*s."""
        gammas = np.repeat(np.float32([1, 3]), 64)
        table = np.zeros((16, 128), np.float32)
        table[:, :64], table[:, 64:] = 1, 2
        table[:, 1], table[:, 65] = 448, 0
        codes, scale, _ = single(device, bf16(np.ones(128)), qGamma=gammas, kGamma=gammas, cosSin=table)
        assert scale == 3, "lane 65 is 3 * 448"
        # Over the scale: lane 0 is -5/3, lane 64 5/3, lane 1 448/3 (149.33), lane 65 448.
        assert codes[[0, 64, 1, 65]].tolist() == [0xBD, 0x3D, 0x71, 0x7E]
        assert (codes[2:64] == 0xBD).all()
        assert (codes[66:] == 0x3D).all()

    def test_rows_times_matrix(self, device: Any) -> None:
        """Channel i goes to i + 1, not the other way."""
        codes, _, _ = single(device, one_hot(5), rotationOptional=bf16(np.roll(np.eye(128), 1, axis=1)))
        assert np.flatnonzero(codes).tolist() == [6]
        codes, _, _ = single(device, one_hot(127), rotationOptional=bf16(np.roll(np.eye(128), 1, axis=1)))
        assert np.flatnonzero(codes).tolist() == [0]

    def test_a_full_matrix(self, device: Any) -> None:
        """Every y is 1: columns of 1 add up to 128, columns of +1 and -1 to 0, a column of 3.5 to 448."""
        matrix = np.ones((128, 128), np.float32)
        matrix[::2, 1] = -1
        matrix[:, 2] = 3.5
        codes, scale, _ = single(device, bf16(np.ones(128)), rotationOptional=bf16(matrix))
        assert scale == 1
        assert codes[:4].tolist() == [0x70, 0x00, 0x7E, 0x70]

    def test_rows_are_rounded_to_bf16_in_front_of_the_matrix(self, device: Any) -> None:
        """1 + 2^-8 is a tie that goes down to 1, 1 + 3 * 2^-8 one that goes up to 1 + 2^-6."""
        gammas = np.ones(128, np.float32)
        gammas[:2] = 1 + 2**-8, 1 + 3 * 2**-8
        matrix = np.zeros((128, 128), np.float32)
        matrix[0, 0] = matrix[1, 1] = 1
        _, scale, _ = single(device, bf16(np.ones(128)), qGamma=gammas, kGamma=gammas, rotationOptional=bf16(matrix))
        assert scale == np.float32(1 + 2**-6) / np.float32(448)
        matrix[1, 1] = 0
        _, scale, _ = single(device, bf16(np.ones(128)), qGamma=gammas, kGamma=gammas, rotationOptional=bf16(matrix))
        assert scale == np.float32(1) / np.float32(448)


class TestSpecialRows:
    @pytest.mark.parametrize("zero", [0x0000, 0x8000])
    def test_all_zero(self, device: Any, zero: int) -> None:
        codes, scale, _ = single(device, np.full(128, zero, np.uint16), epsilon=1e-6)
        assert not codes.any()
        assert scale.view(np.uint32) == 0

    def test_all_zero_without_epsilon(self, device: Any) -> None:
        codes, scale, _ = single(device, np.zeros(128, np.uint16))
        assert not codes.any()
        assert np.isnan(scale)

    @pytest.mark.parametrize("code", [0x7FC0, 0xFFC1, 0x7F80, 0xFF80])
    @pytest.mark.parametrize("channel", [0, 127])
    def test_nan_and_inf_spread(self, device: Any, code: int, channel: int) -> None:
        row = bf16(np.ones(128))
        row[channel] = code
        codes, scale, _ = single(device, row, epsilon=1e-6)
        assert not codes.any()
        assert np.isnan(scale)

    def test_a_sum_that_overflows_gives_zeros(self, device: Any) -> None:
        codes, scale, _ = single(device, bf16(np.full(128, 2.0**100)), epsilon=1e-6)
        assert not codes.any()
        assert scale.view(np.uint32) == 0

    def test_inf_after_the_matrix(self, device: Any) -> None:
        matrix = np.zeros((128, 128), np.float32)
        matrix[:2, 0] = 2.0**127
        matrix[0, 1], matrix[0, 2] = 1, -1
        codes, scale, _ = single(device, bf16(np.ones(128)), rotationOptional=bf16(matrix))
        assert np.isposinf(scale)
        assert codes[:4].tolist() == [0x00, 0x00, 0x80, 0x00], "Inf/Inf, 1/Inf, -1/Inf, 0/Inf"

    def test_a_nan_behind_an_inf_wins(self, device: Any) -> None:
        matrix = np.zeros((128, 128), np.float32)
        matrix[:2, 0] = 2.0**127
        matrix[:2, 1] = 2.0**127
        matrix[2, 1] = -np.inf
        _, scale, _ = single(device, bf16(np.ones(128)), rotationOptional=bf16(matrix))
        assert np.isnan(scale)

    def test_a_bf16_overflow_is_inf(self, device: Any) -> None:
        """Not saturated: Inf in the row and 0 in the matrix are NaN everywhere."""
        gammas = np.ones(128, np.float32)
        gammas[3] = np.finfo(np.float32).max
        codes, scale, _ = single(device, bf16(np.ones(128)), qGamma=gammas, kGamma=gammas)
        assert np.isnan(scale)
        assert not codes.any()

    def test_a_subnormal_scale_is_kept(self, device: Any) -> None:
        """IEEE division; the device may flush here."""
        gammas = np.full(128, 2.0**-126, np.float32)
        codes, scale, _ = single(device, bf16(np.ones(128)), qGamma=gammas, kGamma=gammas)
        assert 0 < scale < np.finfo(np.float32).tiny
        assert (codes == 0x7E).all()


class TestV:
    def run(self, device: Any, rows: np.ndarray, scales: Sequence[float]) -> np.ndarray:
        """Codes of BF16 rows [tokens, heads, 128] under a scale a head."""
        tokens, heads, _ = rows.shape
        call = calls.Call(device, tokens, (1, heads, heads), blocks=1, block_size=tokens, rows=tokens)
        call.arrays["qkv"][:, 1 + heads :] = rows
        call.arrays["vScaleOptional"][:] = scales
        assert call.run() == 0
        return call.result("vCacheRef")[0].swapaxes(0, 1)

    def test_products_saturate(self, device: Any) -> None:
        row = bf16(np.array([256, -256, 1, 0, -0.0, np.inf, -np.inf, np.nan] * 16))
        codes = self.run(device, np.repeat(row[None, None], 3, axis=1), (1.81640625, -4, 0))
        assert codes[0, 0, :8].tolist() == [0x7E, 0xFE, 0x3F, 0x00, 0x80, 0x7E, 0xFE, 0x00]
        assert codes[0, 1, :8].tolist() == [0xFE, 0x7E, 0xC8, 0x80, 0x00, 0xFE, 0x7E, 0x00]
        assert codes[0, 2, :8].tolist() == [0x00, 0x80, 0x00, 0x00, 0x80, 0x00, 0x00, 0x00], "0 * Inf is NaN"

    def test_every_bf16_pattern(self, device: Any) -> None:
        """Decoded by the table of E4M3FN, nearest by exact distances."""
        rows = np.arange(65_536, dtype=np.uint32).astype(np.uint16).reshape(512, 1, 128)
        got = self.run(device, rows, (1.0,)).ravel()
        codes = np.arange(0x7F)
        exponent, mantissa = codes >> 3, codes & 7
        values = np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
        bits = np.arange(65_536, dtype=np.uint32) << 16
        inputs = bits.view(np.float32)
        is_nan = np.isnan(inputs)
        assert not got[is_nan].any()
        magnitudes = np.minimum(np.abs(inputs[~is_nan].astype(np.float64)), 448)
        distances = np.abs(magnitudes - values[got[~is_nan] & 0x7F])
        for step in (-1, 1):
            others = (got[~is_nan] & 0x7F).astype(int) + step
            away = np.abs(magnitudes - values[np.clip(others, 0, 0x7E)])
            is_edge = (others < 0) | (others > 0x7E)
            assert (is_edge | (distances < away) | (distances == away) & (others % 2 == 1)).all()
        np.testing.assert_array_equal(got[~is_nan] >> 7, bits[~is_nan] >> 31)

    def test_a_product_is_rounded_once(self, device: Any) -> None:
        """17 - 2^-20 times 1 is under the tie of 16 and 18: a float holds it, BF16 or FP8 on the way would not."""
        row = one_hot(0, 1.0)[None, None]
        assert self.run(device, row, (np.float32(17) - np.float32(2**-19),))[0, 0, 0] == 0x58
        assert self.run(device, row, (np.float32(17) + np.float32(2**-19),))[0, 0, 0] == 0x59
        assert self.run(device, row, (17,))[0, 0, 0] == 0x58
        assert self.run(device, row, (19,))[0, 0, 0] == 0x5A
