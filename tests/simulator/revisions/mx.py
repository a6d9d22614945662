# SPDX-License-Identifier: Apache-2.0
"""The Mx scene: blocks of 32 channels with an exponent each, worked out by hand.

With a row of ones, cosines 1, sines 0 and epsilon 0, what is quantised are the gammas.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import revision_calls as calls
from qkv_calls import bf16, busy, one_hot

D = 128
ONES = bf16(np.ones(D))


def single(device: Any, row: np.ndarray = ONES, **changes: Any) -> tuple[np.ndarray, np.ndarray]:
    """Codes and exponents of one row of BF16 codes taken as a row of K; Q must give the same."""
    call = calls.Call(device, "mx", tokens=1)
    call.arrays["qkv"][0, :] = row
    call.epsilon = changes.pop("epsilon", 0.0)
    for name, array in changes.items():
        call.arrays[name][...] = array
    assert call.run() == 0
    codes, exponents = call.result("kCacheRef")[0, 0, 0], call.result("kScaleCacheRef")[0, 0, 0]
    for head in range(8):
        np.testing.assert_array_equal(call.result("qOut")[0, head], codes)
        np.testing.assert_array_equal(call.result("qScale")[0, head], exponents)
    return codes, exponents


def of_gammas(device: Any, *blocks: Any) -> tuple[np.ndarray, np.ndarray]:
    """Codes, a row for each block, and exponents of four blocks, each of some values repeated."""
    gammas = np.concatenate([np.resize(np.float32(block), 32) for block in blocks])
    codes, exponents = single(device, qGamma=gammas, kGamma=gammas)
    return codes.reshape(4, 32), exponents


ABOVE = np.nextafter(np.float32(448), np.float32(1e9))
BELOW = np.nextafter(np.float32(448), np.float32(0))


class TestExponents:
    def test_around_a_power_of_two(self, device: Any) -> None:
        """448 is 448 * 2^0; one step more needs 2^1 and is 224 then; one step less rounds up to 448."""
        codes, exponents = of_gammas(device, [448, 1], [ABOVE, 1], [BELOW, -448], [896, -1])
        assert exponents.tolist() == [127, 128, 127, 128]
        assert codes[:, 0].tolist() == [0x7E, 0x76, 0x7E, 0x7E]
        assert codes[:, 1].tolist() == [0x38, 0x30, 0xFE, 0xB0], "1, 1/2, -448, -1/2"

    def test_zero(self, device: Any) -> None:
        codes, exponents = of_gammas(device, [448], [0], [2.0**-9 * 448], [448 * 2.0**10])
        assert exponents.tolist() == [127, 0, 118, 137]
        assert not codes[1].any()
        assert (codes[[0, 2, 3]] == 0x7E).all()

    def test_small_blocks(self, device: Any) -> None:
        """The least exponent stands for all that is smaller; one bit pattern above 1.75 * 2^-119 still has it."""
        least = np.uint32([0x0460_0000, 0x0460_0001, 0x0460_0002, 0x0080_0000]).view(np.float32)
        codes, exponents = of_gammas(device, *least[:, None])
        assert exponents.tolist() == [0, 0, 1, 0]
        assert codes[:, 0].tolist() == [0x7E, 0x7E, 0x76, 0x40], "448, 448, 224, 2 of 2^-126 times 2^127"

    def test_the_greatest_number(self, device: Any) -> None:
        """Just below 2^128: 2^120 times 256, rounded up."""
        greatest = np.finfo(np.float32).max
        codes, exponents = of_gammas(device, [greatest], [1.75 * 2.0**127], [2.0**127], [1])
        assert exponents.tolist() == [247, 246, 246, 119]
        assert codes[:, 0].tolist() == [0x78, 0x7E, 0x78, 0x78]

    def test_inf_spoils_its_block_alone(self, device: Any) -> None:
        """A cosine of 2 makes Inf of the last channel and a number of its partner."""
        gammas = np.full(D, 448, np.float32)
        gammas[127], gammas[63] = 3e38, 224
        table = np.repeat(np.float32([1, 0]), 64)
        table[63] = 2
        codes, exponents = single(device, qGamma=gammas, kGamma=gammas, cosSin=table)
        assert exponents.tolist() == [127, 127, 127, 0xFF]
        assert (codes[:96] == 0x7E).all()
        assert not codes[96:].any()

    @pytest.mark.parametrize("code", [0x7FC0, 0x7F80, 0xFF80])
    def test_nan_and_inf_in_a_row(self, device: Any, code: int) -> None:
        row = ONES.copy()
        row[40] = code
        codes, exponents = single(device, row, epsilon=1e-6)
        assert not codes.any()
        wanted = [0xFF] * 4 if code == 0x7FC0 else [0, 0xFF, 0, 0xFF]
        assert exponents.tolist() == wanted, "over Inf all is 0 but Inf itself, which its partner's turn takes in too"

    def test_a_row_of_zeros(self, device: Any) -> None:
        codes, exponents = single(device, np.zeros(D, np.uint16), epsilon=1e-6)
        assert not codes.any()
        assert not exponents.any()
        _, exponents = single(device, np.zeros(D, np.uint16))
        assert exponents.tolist() == [0xFF] * 4, "0 over 0"

    def test_codes_round_to_the_nearest(self, device: Any) -> None:
        values = [448, 17, 19, -17, 2.0**-9, 2.0**-10, 3 * 2.0**-10, -(2.0**-11)]
        codes, exponents = of_gammas(device, values, values, values, values)
        assert exponents.tolist() == [127] * 4
        assert codes[3, :8].tolist() == [0x7E, 0x58, 0x5A, 0xD8, 0x01, 0x00, 0x02, 0x80]


class TestTurn:
    def test_halves_are_turned(self, device: Any) -> None:
        """Without a matrix: lo is 1*2 - 3*4 and hi 3*2 + 1*4."""
        gammas = np.repeat(np.float32([1, 3]), 64)
        codes, exponents = single(device, qGamma=gammas, kGamma=gammas, cosSin=np.repeat(np.float32([2, 4]), 64))
        assert exponents.tolist() == [122] * 4, "10 of 2^-5 is 320"
        assert (codes[:64] == 0xFA).all()
        assert (codes[64:] == 0x7A).all()

    def test_lanes_take_their_axis(self, device: Any) -> None:
        call = calls.Call(device, "mx", tokens=1)
        call.arrays["cosSin"][:, :64] = np.arange(16)[:, None]
        call.arrays["mropePositionOptional"][:] = 1, 2, 8
        assert call.run() == 0
        codes = call.result("qOut")[0, 0]
        assert call.result("qScale")[0, 0].tolist() == [122] * 4, "8 of 2^-5 is 256"
        assert codes[:6].tolist() == [0x60, 0x68, 0x78] * 2
        assert codes[60:64].tolist() == [0x60] * 4
        np.testing.assert_array_equal(codes[64:], codes[:64])

    @pytest.mark.parametrize(("x", "exponent"), [(np.float32(12), 127), (np.float32(17), 128)])
    def test_rows_are_normalised_first(self, device: Any, x: Any, exponent: int) -> None:
        """The row path: x over the root is rounded, then multiplied. The other way round gamma would take this value to
        the other side of 448, which the exponent tells."""
        root = np.sqrt(np.float32((127 * 9 + x**2) / 128))
        near = np.float32(448) / (x / root)
        gamma = next(
            g
            for g in near + np.arange(-8, 9, dtype=np.float32) * np.spacing(near)
            if (x / root * g > 448) != (x * g / root > 448)
        )
        row, gammas = bf16(np.full(D, 3.0)), np.ones(D, np.float32)
        row[0], gammas[0] = bf16([x])[0], gamma
        _, exponents = single(device, row, qGamma=gammas, kGamma=gammas)
        assert exponents[0] == exponent


def test_rows_go_to_their_slots(device: Any) -> None:
    call = calls.Call(device, "mx", tokens=3, k_heads=2, slots=(6, 1, 3))
    channels = np.arange(3 * 20).reshape(3, 20) * 7 % D
    call.arrays["qkv"][:] = one_hot(channels)
    assert call.run() == 0
    got = call.results()
    np.testing.assert_array_equal(got["qOut"].argmax(-1), channels[:, :16])
    np.testing.assert_array_equal(got["qScale"].argmax(-1), channels[:, :16] // 32)
    written = np.zeros(8, bool)
    for token, slot in enumerate((6, 1, 3)):
        block, row = divmod(slot, 4)
        written[slot] = True
        np.testing.assert_array_equal(got["kCacheRef"][block, :, row].argmax(-1), channels[token, 16:18])
        np.testing.assert_array_equal(got["vCacheRef"][block, :, row].argmax(-1), channels[token, 18:])
        # sqrt(128) is 362 of 2^-5; blocks of zeros have the least exponent.
        wanted = np.where(np.arange(4) == channels[token, 16:18, None] // 32, 122, 0)
        np.testing.assert_array_equal(got["kScaleCacheRef"][block, :, row], wanted)
    for name, free in (("kCacheRef", 0xAA), ("vCacheRef", 0x55), ("kScaleCacheRef", 0xDD)):
        by_slot = got[name].swapaxes(1, 2).reshape(8, -1)
        assert (by_slot[~written] == free).all()


def test_v_has_a_factor_for_each_channel(device: Any) -> None:
    call = calls.Call(device, "mx", tokens=1)
    call.arrays["vScaleOptional"][0, :4] = 2, -1, 17, 500
    assert call.run() == 0
    assert call.result("vCacheRef")[0, 0, 0, :5].tolist() == [0x40, 0xB8, 0x58, 0x7E, 0x38]


def test_exponents_of_a_strided_cache(device: Any) -> None:
    """Padded rows of exponents: a stride of 8 instead of 4."""
    call = calls.Call(device, "mx", tokens=1, slots=(5,)).prepare()
    base = np.full((2, 1, 4, 8), 0xEE, np.uint8)
    address = device.upload(base)
    device.destroy(call.tensors["kScaleCacheRef"])
    call.tensors["kScaleCacheRef"] = device.tensor((2, 1, 4, 4), calls.E8M0, address, (32, 32, 8, 1), 0, [base.size])
    assert call.run() == 0
    base[1, 0, 1, :4] = 119
    np.testing.assert_array_equal(device.read(address, base), base)


def test_random_rows_by_their_values(device: Any) -> None:
    """Codes times exponents are the rows to within half a step of FP8, and the greatest code of a block is at least
    half the greatest there is."""
    call = calls.Call(device, "mx", tokens=5, k_heads=2)
    call.arrays["qkv"][:] = busy(device, tokens=5, heads=(16, 2, 2)).arrays["qkv"]
    assert call.run() == 0
    x = (call.arrays["qkv"].astype(np.uint32) << 16).view(np.float32)[:, :16].astype(np.float64)
    wanted = (x / np.sqrt((x**2).mean(-1, keepdims=True))).reshape(5, 16, 4, 32)
    codes, exponents = call.result("qOut").reshape(5, 16, 4, 32), call.result("qScale")
    magnitude, sign = codes & 0x7F, np.where(codes & 0x80, -1, 1)
    exponent, mantissa = (magnitude >> 3).astype(int), magnitude & 7
    values = sign * np.where(exponent > 0, (8 + mantissa) * 2.0 ** (exponent - 10), mantissa * 2.0**-9)
    values *= 2.0 ** (exponents.astype(int)[..., None] - 127)
    unit = 2.0 ** (exponents.astype(int)[..., None] - 127 - 10)
    assert (np.abs(values - wanted) <= np.abs(wanted) / 16 * 1.00001 + unit).all()
    assert (magnitude.max(-1) >= 0x76).all()
