# SPDX-License-Identifier: Apache-2.0
"""The simulator's own FP8, INT8 and BF16 conversions, against exact arithmetic on tables of the formats' values."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import compiled
import numpy as np
import pytest

OUT = np.dtype(
    [("e4m3fn", np.uint8), ("int8", np.int8), ("bf16", np.uint16), ("saturated", np.uint16), ("widened", np.uint32)]
)

Convert = Callable[[np.ndarray], np.ndarray]


class Format(NamedTuple):
    exponent_bits: int
    mantissa_bits: int
    greatest: int
    """Code of the greatest number that rounding may give; BF16 goes on to Inf, which rounds like a number there."""

    def values(self) -> np.ndarray:
        """What the codes up to the greatest stand for, exactly."""
        codes = np.arange(self.greatest + 1)
        exponent, mantissa = codes >> self.mantissa_bits, codes & (1 << self.mantissa_bits) - 1
        bias = (1 << self.exponent_bits - 1) - 1
        significand = np.where(exponent > 0, 1 << self.mantissa_bits, 0) + mantissa
        return np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - self.mantissa_bits)

    def ties(self) -> np.ndarray:
        values = self.values()
        return (values[1:] + values[:-1]) / 2

    def expected(self, bits: np.ndarray) -> np.ndarray:
        """Codes without sign, of no use where they are NaN: to the nearest, a tie to the even code."""
        with np.errstate(invalid="ignore"):
            magnitudes = np.abs(bits.view(np.float32).astype(np.float64))
        ties = self.ties()
        codes = np.searchsorted(ties, magnitudes, side="left")
        is_tie = ties[np.minimum(codes, len(ties) - 1)] == magnitudes
        return codes + (is_tie & (codes % 2 == 1))


E4M3FN, BF16 = Format(4, 3, 0x7E), Format(8, 7, 0x7F80)


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    program = tmp_path_factory.mktemp("numerics") / "numerics"
    compiled.compile_c(compiled.HERE / "numerics.c", "-o", program)

    def run(bits: np.ndarray) -> np.ndarray:
        done = compiled.run(program, bits.astype(np.uint32).tobytes())
        assert done.returncode == 0
        return np.frombuffer(done.stdout, OUT)

    return run


def floats(values: np.ndarray) -> np.ndarray:
    """Bits of floats that hold the values exactly, of both signs."""
    with np.errstate(over="ignore"):
        exact = values.astype(np.float32)
    bits = exact.view(np.uint32)
    return np.concatenate([bits, bits | 0x8000_0000])


def neighbourhood(form: Format) -> np.ndarray:
    """Every value of the format and every tie, each with the float before and the float after it."""
    bits = floats(np.concatenate([form.values(), form.ties()]))
    return np.concatenate([bits, bits[bits & 0x7FFF_FFFF > 0] - 1, bits + 1])


def check_fp8(got: np.ndarray, bits: np.ndarray) -> None:
    is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000
    wanted = np.where(is_nan, 0, E4M3FN.expected(bits) | (bits >> 31 << 7))
    np.testing.assert_array_equal(got, wanted)


def test_tables() -> None:
    assert E4M3FN.values()[[0, 1, 8, 0x38, 0x7E]].tolist() == [0, 2**-9, 2**-6, 1, 448]
    assert BF16.values()[[0, 1, 0x3F80, 0x7F7F, 0x7F80]].tolist() == [0, 2.0**-133, 1, 255 * 2.0**120, 2.0**128]


class TestFp8:
    def test_every_code_comes_back(self, convert: Convert) -> None:
        got = convert(floats(E4M3FN.values()))["e4m3fn"]
        codes = np.arange(E4M3FN.greatest + 1)
        np.testing.assert_array_equal(got, np.concatenate([codes, codes | 0x80]))

    def test_every_tie_and_both_its_neighbours(self, convert: Convert) -> None:
        bits = neighbourhood(E4M3FN)
        check_fp8(convert(bits)["e4m3fn"], bits)

    def test_every_bf16_pattern(self, convert: Convert) -> None:
        bits = np.arange(65_536, dtype=np.uint32) << 16
        check_fp8(convert(bits)["e4m3fn"], bits)

    def test_any_floats(self, convert: Convert) -> None:
        bits = np.random.default_rng(0).integers(0, 2**32, 500_000, np.uint32)
        check_fp8(convert(bits)["e4m3fn"], bits)

    def test_special_values(self, convert: Convert) -> None:
        specials = {
            0x7FC0_0000: 0,  # NaN of either sign, quiet and signalling
            0xFFC0_0000: 0,
            0x7F80_0001: 0,
            0xFF80_0001: 0,
            0x7F80_0000: E4M3FN.greatest,
            0xFF80_0000: E4M3FN.greatest | 0x80,
            0x7F7F_FFFF: E4M3FN.greatest,
            0x0000_0000: 0,
            0x8000_0000: 0x80,
            0x0000_0001: 0,
            0x8000_0001: 0x80,
        }
        assert convert(np.array(list(specials), np.uint32))["e4m3fn"].tolist() == list(specials.values())


class TestBf16:
    def test_every_pattern_is_widened(self, convert: Convert) -> None:
        codes = np.arange(65_536, dtype=np.uint32)
        np.testing.assert_array_equal(convert(codes)["widened"], codes << 16)

    def test_every_pattern_comes_back(self, convert: Convert) -> None:
        """Signalling NaNs but as quiet ones."""
        codes = np.arange(65_536, dtype=np.uint32)
        is_nan = codes & 0x7FFF > 0x7F80
        np.testing.assert_array_equal(convert(codes << 16)["bf16"], np.where(is_nan, codes | 0x40, codes))

    def test_every_tie_and_both_its_neighbours(self, convert: Convert) -> None:
        bits = neighbourhood(BF16)
        bits = bits[bits & 0x7FFF_FFFF <= 0x7F80_0000]
        np.testing.assert_array_equal(convert(bits)["bf16"], BF16.expected(bits) | bits >> 31 << 15)

    def test_a_nan_whose_payload_is_cut_off_stays_one(self, convert: Convert) -> None:
        assert convert(np.array([0x7F80_0001, 0xFFFF_FFFF], np.uint32))["bf16"].tolist() == [0x7FC0, 0xFFFF]

    def test_saturated(self, convert: Convert) -> None:
        bits = np.concatenate([neighbourhood(BF16), np.random.default_rng(1).integers(0, 2**32, 500_000, np.uint32)])
        is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000
        wanted = np.where(is_nan, 0, np.minimum(BF16.expected(bits), 0x7F7F) | bits >> 31 << 15)
        np.testing.assert_array_equal(convert(bits)["saturated"], wanted)


class TestInt8:
    """By way of FP16, whose values and ties decide."""

    def expected(self, bits: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(bits.view(np.float32).astype(np.float16))
            return np.nan_to_num(np.clip(whole, -128, 127), nan=0).astype(np.int8)

    def test_around_every_tie(self, convert: Convert) -> None:
        steps = np.arange(0, 130 * 64, dtype=np.float32) / 64
        bits = floats(steps)
        bits = np.concatenate([bits, bits[bits & 0x7FFF_FFFF > 0] - 1, bits + 1])
        got = convert(bits)["int8"]
        np.testing.assert_array_equal(got, self.expected(bits))
        with np.errstate(invalid="ignore"):
            direct = np.clip(np.rint(bits.view(np.float32)), -128, 127)
        assert (got != direct).any(), "rounding twice makes a difference"

    def test_any_floats(self, convert: Convert) -> None:
        rng = np.random.default_rng(2)
        bits = rng.integers(0, 2**32, 200_000, np.uint32)
        near = rng.uniform(-140, 140, 200_000).astype(np.float32).view(np.uint32)
        for some in (bits, near):
            np.testing.assert_array_equal(convert(some)["int8"], self.expected(some))

    def test_special_values(self, convert: Convert) -> None:
        specials = {0x7FC0_0000: 0, 0xFF80_0001: 0, 0x7F80_0000: 127, 0xFF80_0000: -128, 0x7F7F_FFFF: 127, 1 << 31: 0}
        assert convert(np.array(list(specials), np.uint32))["int8"].tolist() == list(specials.values())
