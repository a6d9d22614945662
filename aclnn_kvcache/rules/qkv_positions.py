# SPDX-License-Identifier: Apache-2.0
"""Rules of the fused operator on M-RoPE: positions on the axes T, H and W, and how many lanes turn by each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from aclnn_kvcache.rules.qkv_heads import rule
from aclnn_kvcache.rules.qkv_scenes import has_position, has_section
from aclnn_kvcache.rules.rule import Call, Rule, Unanswerable

LANES, MOST_OF_AXIS = 64, 21
"""Half a head, and how many of its lanes the axes H and W can have: every third from the second or third on."""
PAIR = ("mrope_position", "mrope_section")
SECTION = ("mrope_section",)


def pair_rule(number: str) -> Rule:
    expected = "mrope_position and mrope_section must be given both or neither"
    return rule("mrope_pair", PAIR, expected, number, partial(_pair, expected), "EZ0026")


def _pair(expected: str, call: Call) -> Iterator[str]:
    if has_position(call) is not has_section(call):
        yield f"{expected}, got {' only, without '.join(PAIR if has_position(call) else PAIR[::-1])}"


def must_be_absent(names: tuple[str, ...], number: str) -> Rule:
    expected = f"{' and '.join(names)} must be None"
    return rule(f"absent.{'.'.join(names)}", names, expected, number, partial(_present, names, expected), "EZ0026")


def _present(names: tuple[str, ...], expected: str, call: Call) -> Iterator[str]:
    specs = [call.specs[name] for name in names]
    if any(spec is not None for spec in specs):
        yield f"{expected}, got {' and '.join(str(spec and list(spec.shape)) for spec in specs)}"


def section_length(number: str) -> Rule:
    expected = "mrope_section must have three values, for the axes T, H and W"
    return rule("mrope_section.length", SECTION, expected, number, partial(_length, expected), "EZ0025")


def _length(expected: str, call: Call) -> Iterator[str]:
    section = _section(call)
    if len(section) != 3:
        yield f"{expected}, got {list(section)}"


def section_values(number: str, *, with_length: bool = True) -> Rule:
    """``with_length``: whether the number of values is this rule's business too."""
    expected = (
        f"mrope_section must be three values that are not negative, at most {MOST_OF_AXIS} for H and for W, and "
        f"{LANES} together"
    )
    broken = partial(_values, expected, with_length)
    return rule("mrope_section", SECTION, expected, number, broken, "EZ0026")


def _values(expected: str, with_length: bool, call: Call) -> Iterator[str]:
    section = _section(call)
    if len(section) != 3 and not with_length:
        raise Unanswerable
    if len(section) != 3 or min(section) < 0 or max(section[1:]) > MOST_OF_AXIS or sum(section) > LANES:
        yield f"{expected}, got {list(section)}"


def _section(call: Call) -> tuple[int, ...]:
    if not has_section(call):
        raise Unanswerable
    return tuple(call.attributes["mrope_section"])


def position_rules() -> Iterator[Rule]:
    expected = "cos_sin must have a row for every value of mrope_position"
    source = "the kernel reads the table unchecked"
    yield Rule("mrope_position", ("mrope_position", "cos_sin"), expected, source, _positions)


def _positions(call: Call) -> Iterator[str]:
    positions = call.values.get("mrope_position")
    if positions is None or positions.ndim != 2 or positions.dtype.kind not in "iu":
        raise Unanswerable
    rows, _ = call.shape("cos_sin", 2)
    outside = np.argwhere((positions < 0) | (positions >= rows))
    if len(outside):
        token, axis = (int(index) for index in outside[0])
        more = f" ({len(outside)} values are outside)" if len(outside) > 1 else ""
        yield (
            f"mrope_position of token {token}, axis {'THW'[axis] if axis < 3 else axis}, is {positions[token, axis]}, "
            f"but cos_sin has rows 0..{rows - 1}{more}; pass a table with a row for every position"
        )
