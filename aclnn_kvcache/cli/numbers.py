# SPDX-License-Identifier: Apache-2.0
"""Numbers on the command line, with what is said of one that cannot be meant."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

Number = TypeVar("Number", int, float)


def _number(kind: type[Number], is_meant: Callable[[Number], bool], meaning: str) -> Callable[[str], Number]:
    def read(text: str) -> Number:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not is_meant(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not {meaning}")
        return value

    return read


PROCESS = _number(int, lambda value: value > 0, "the number of a process")
SEED = _number(int, lambda value: value >= 0, "an integer from 0 on")
INDEX = _number(int, lambda value: 0 <= value < 2**31, "the index of a device, counted from 0")
SECONDS = _number(float, lambda value: 0 < value <= 86400, "a number of seconds above 0, of at most 86400")
