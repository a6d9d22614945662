# SPDX-License-Identifier: Apache-2.0
"""Families of rules that the operators share: one rule for each argument, with the operator's own status and code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from aclnn_kvcache.dtypes import format_name, hint_for, is_one_of, name_of
from aclnn_kvcache.rules.finding import TensorSpec
from aclnn_kvcache.rules.rule import INNER, INVALID, NULL, Call, Rule

Dtypes = tuple[np.dtype[Any], ...]
Extent = Callable[[Call], "int | None"]
"""What an extent must be, None for anything. May raise Unanswerable."""

FORMATS = (0, 1, 2, 16, 27, 30, 35, 47)
"""The aclFormats whose elements lie as shape and strides say: NCHW, NHWC, ND, HWCN, NDHWC, NCDHW, NC, NCL."""


def decision(number: str) -> str:
    """The source of a rule that CANN checks: the place in its order of checks."""
    return f"phase 1 of CANN, decision {number}"


def where(condition: Callable[[Call], bool], words: str, rules: Iterable[Rule], suffix: str = "") -> Iterator[Rule]:
    """The rules, for calls of a kind that the condition tells and the words name. ``suffix`` tells their ids from those
    of other kinds. The condition may raise Unanswerable."""
    for rule in rules:
        broken = partial(_where, condition, words, rule)
        yield rule._replace(id=rule.id + suffix, expected=f"{rule.expected} {words}", broken=broken)


def _where(condition: Callable[[Call], bool], words: str, rule: Rule, call: Call) -> Iterator[str]:
    if condition(call):
        for message in rule.broken(call):
            yield f"{message} ({words})"


def required_rules(names: Iterable[str], ez: str | None, number: str = "2") -> Iterator[Rule]:
    for name in names:
        source = decision(number)
        yield Rule(f"required.{name}", (name,), f"{name} must be given", source, partial(_missing, name), NULL, ez)


def _missing(name: str, call: Call) -> Iterator[str]:
    if (call.specs[name] if name in call.specs else call.attributes[name]) is None:
        yield f"{name} is None; the operator requires it"


def dtype_rules(allowed: Mapping[str, Dtypes], source: str, ez: str | None, status: int = INVALID) -> Iterator[Rule]:
    for name, dtypes in allowed.items():
        expected = f"{name} must be {_either(dtypes)}"
        yield Rule(f"dtype.{name}", (name,), expected, source, partial(wrong_dtype, name, dtypes), status, ez)


def rank_rules(ranks: Mapping[str, int], number: str, ez: str) -> Iterator[Rule]:
    for name, rank in ranks.items():
        expected = f"{name} must have {rank} dimension{'s' if rank > 1 else ''}"
        source, broken = decision(number), partial(_wrong_rank, name, rank, expected)
        yield Rule(f"rank.{name}", (name,), expected, source, broken, INVALID, ez)


def _wrong_rank(name: str, rank: int, expected: str, call: Call) -> Iterator[str]:
    shape = call.spec(name).shape
    if len(shape) != rank:
        yield f"{expected}, got {list(shape)}"


def has_dtype(spec: TensorSpec, dtypes: Dtypes) -> bool:
    return is_one_of(spec.dtype, dtypes)


def wrong_dtype(name: str, dtypes: Dtypes, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if not has_dtype(spec, dtypes):
        hint = hint_for(spec.dtype, dtypes)
        message = f"{name} must be {_either(dtypes)}, got {name_of(spec.dtype)}"
        yield message + (f"; {hint}" if hint else "")


def _either(dtypes: Dtypes) -> str:
    return " or ".join(map(name_of, dtypes))


class Shape(NamedTuple):
    """The extents that an argument must have, and what CANN answers if it has others."""

    id: str
    name: str
    symbols: str
    extents: tuple[Extent, ...]
    source: str
    status: int = 0
    ez: str | None = None
    others: tuple[str, ...] = ()
    """Arguments that CANN's message names beside this one."""


def shape_rules(
    shapes: Iterable[Shape], own: Callable[[Call, str], tuple[int, ...]], origin: Callable[[Call], str]
) -> Iterator[Rule]:
    """``own`` gives an argument's shape, or raises Unanswerable; ``origin`` says where the wanted extents come from."""
    for row in shapes:
        expected = f"{row.name} must be {row.symbols}"
        broken = partial(_wrong_shape, row, own, origin)
        yield Rule(row.id, (row.name, *row.others), expected, row.source, broken, row.status, row.ez)


def _wrong_shape(
    row: Shape, own: Callable[[Call, str], tuple[int, ...]], origin: Callable[[Call], str], call: Call
) -> Iterator[str]:
    shape = own(call, row.name)
    want = [extent(call) for extent in row.extents]
    if len(shape) != len(want) or any(w not in (None, got) for w, got in zip(want, shape, strict=True)):
        wanted = ", ".join("any" if w is None else str(w) for w in want)
        yield f"{row.name} must be {row.symbols} = [{wanted}], got {list(shape)}; {origin(call)}"


def format_rules(names: Iterable[str], source: str) -> Iterator[Rule]:
    for name in names:
        expected = f"{name} must be in ND or another format that shape and strides describe"
        yield Rule(f"format.{name}", (name,), expected, source, partial(_format, name))


def _format(name: str, call: Call) -> Iterator[str]:
    number = call.spec(name).format
    if number not in FORMATS:
        yield f"{name} must be in format ND (2), got {format_name(number)}, which CANN would read as ND"


def offset_rules(
    names: Iterable[str], source: str, looks: Callable[[Call], bool], *, negative: bool = False
) -> Iterator[Rule]:
    """All that CANN looks at in a view that is used in place; ``looks`` says whether it does, ``negative`` whether it
    also refuses a start in front of the allocation."""
    for name in names:
        expected = f"{name} must not start {'in front of or ' if negative else ''}behind its allocation"
        broken = partial(_offset, name, looks, negative)
        yield Rule(f"offset.{name}", (name,), expected, source, broken, INNER, "EZ9999")


def _offset(name: str, looks: Callable[[Call], bool], negative: bool, call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if (spec.offset > spec.storage or (negative and spec.offset < 0)) and looks(call):
        yield (
            f"{name} starts at element {spec.offset} of an allocation of {spec.storage} elements; use a view inside "
            f"it, or state its whole size"
        )


def bounds_rules(names: Iterable[str], answered: Callable[[Call, str], bool]) -> Iterator[Rule]:
    """``answered`` says whether CANN answers to a tensor that is outside, so that another rule speaks of it."""
    for name in names:
        expected = f"{name} must lie inside its allocation"
        source = "the kernel goes by shape, strides and offset, whatever the size of the allocation"
        yield Rule(f"bounds.{name}", (name,), expected, source, partial(_bounds, name, answered))


def _bounds(name: str, answered: Callable[[Call, str], bool], call: Call) -> Iterator[str]:
    spec = call.spec(name)
    if spec.is_outside and not answered(call, name):
        yield outside(name, spec)


def outside(name: str, spec: TensorSpec) -> str:
    low, high = spec.reach
    return (
        f"{name} reaches from element {low} to {high - 1} of an allocation of {spec.storage} elements; use a view "
        f"inside it, or state its whole size"
    )


def extent_rules(
    axes: Mapping[str, Sequence[int]], source: str, status: int = 0, ez: str | None = None
) -> Iterator[Rule]:
    """``axes``: those of an argument that nothing else keeps from being negative."""
    for name, numbers in axes.items():
        expected = f"{name} must have no negative dimension"
        yield Rule(f"extent.{name}", (name,), expected, source, partial(_negative_extent, name, numbers), status, ez)


def _negative_extent(name: str, axes: Sequence[int], call: Call) -> Iterator[str]:
    shape = call.spec(name).shape
    if any(axis < len(shape) and shape[axis] < 0 for axis in axes):
        yield f"{name} must have no negative dimension, got {list(shape)}"


def negative_stride_rules(names: Iterable[str]) -> Iterator[Rule]:
    for name in names:
        expected = f"{name} must have no negative stride"
        source = "CANN defines no negative strides and does not look for them"
        yield Rule(f"negative_stride.{name}", (name,), expected, source, partial(_negative_stride, name))


def _negative_stride(name: str, call: Call) -> Iterator[str]:
    strides = call.spec(name).strides
    if min(strides, default=0) < 0:
        yield (
            f"{name} has negative strides {list(strides)}, which CANN does not define; pass a copy in the order wanted"
        )
