# SPDX-License-Identifier: Apache-2.0
"""The simulator's own FP8 and BF16 conversions, against exact arithmetic on tables of the formats' values."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

SIMULATOR = Path(__file__).parents[2] / "aclnn_kvcache" / "simulator"
SOURCES = [Path(__file__).parent / "numerics.c", SIMULATOR / "opapi" / "fp8.c", SIMULATOR / "opapi" / "bf16.c"]
OUT = np.dtype([("e4m3fn", np.uint8), ("e5m2", np.uint8), ("bf16", np.uint16), ("widened", np.uint32)])

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


E4M3FN, E5M2, BF16 = Format(4, 3, 0x7E), Format(5, 2, 0x7B), Format(8, 7, 0x7F80)


@pytest.fixture(scope="module")
def convert(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    program = str(tmp_path_factory.mktemp("numerics") / "numerics")
    # Neither compiler nor program is to run under the sanitizer that the tests may be running under.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    options = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", str(SIMULATOR)]
    subprocess.run([compiler, *options, *map(str, SOURCES), "-o", program], check=True, env=environment, timeout=60)

    def run(bits: np.ndarray) -> np.ndarray:
        done = subprocess.run(
            [program], input=bits.astype(np.uint32).tobytes(), capture_output=True, check=True, env=environment
        )
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


def check_fp8(got: np.ndarray, form: Format, bits: np.ndarray) -> None:
    is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000
    wanted = np.where(is_nan, 0, form.expected(bits) | (bits >> 31 << 7))
    np.testing.assert_array_equal(got, wanted)


def test_tables() -> None:
    assert E4M3FN.values()[[0, 1, 8, 0x38, 0x7E]].tolist() == [0, 2**-9, 2**-6, 1, 448]
    assert E5M2.values()[[0, 1, 4, 0x3C, 0x7B]].tolist() == [0, 2**-16, 2**-14, 1, 57344]
    assert BF16.values()[[0, 1, 0x3F80, 0x7F7F, 0x7F80]].tolist() == [0, 2.0**-133, 1, 255 * 2.0**120, 2.0**128]


@pytest.mark.parametrize(("name", "form"), [("e4m3fn", E4M3FN), ("e5m2", E5M2)])
class TestFp8:
    def test_every_code_comes_back(self, convert: Convert, name: str, form: Format) -> None:
        got = convert(floats(form.values()))[name]
        codes = np.arange(form.greatest + 1)
        np.testing.assert_array_equal(got, np.concatenate([codes, codes | 0x80]))

    def test_every_tie_and_both_its_neighbours(self, convert: Convert, name: str, form: Format) -> None:
        bits = neighbourhood(form)
        check_fp8(convert(bits)[name], form, bits)

    def test_every_bf16_pattern(self, convert: Convert, name: str, form: Format) -> None:
        bits = np.arange(65_536, dtype=np.uint32) << 16
        check_fp8(convert(bits)[name], form, bits)

    def test_any_floats(self, convert: Convert, name: str, form: Format) -> None:
        bits = np.random.default_rng(0).integers(0, 2**32, 500_000, np.uint32)
        check_fp8(convert(bits)[name], form, bits)

    def test_special_values(self, convert: Convert, name: str, form: Format) -> None:
        specials = {
            0x7FC0_0000: 0,  # NaN of either sign, quiet and signalling
            0xFFC0_0000: 0,
            0x7F80_0001: 0,
            0xFF80_0001: 0,
            0x7F80_0000: form.greatest,
            0xFF80_0000: form.greatest | 0x80,
            0x7F7F_FFFF: form.greatest,
            0x0000_0000: 0,
            0x8000_0000: 0x80,
            0x0000_0001: 0,
            0x8000_0001: 0x80,
        }
        assert convert(np.array(list(specials), np.uint32))[name].tolist() == list(specials.values())


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
