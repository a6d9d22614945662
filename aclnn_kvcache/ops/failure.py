# SPDX-License-Identifier: Apache-2.0
"""What a failing call of an operator says: its arguments, and whether they or the installation are at fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from aclnn_kvcache.dtypes import name_of
from aclnn_kvcache.errors import PHASE_1, AclError, ArgumentFacts, Described, DeviceFaultError
from aclnn_kvcache.rules.finding import TensorSpec

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library


def described(specs: Mapping[str, TensorSpec | None], attributes: Iterable[tuple[str, Any]], place: str) -> Described:
    """Arguments and attributes of a call, as errors and launch records keep them."""
    return tuple(_facts(specs, place)), tuple(attributes)


def _facts(specs: Mapping[str, TensorSpec | None], place: str) -> Iterator[ArgumentFacts]:
    for name, spec in specs.items():
        if spec is None:
            yield ArgumentFacts(name, "NULL")
        else:
            yield ArgumentFacts(name, place, name_of(spec.dtype), spec.shape, spec.strides, spec.is_contiguous)


class Failing:
    """``with Failing(...)``: errors that come out of a call which the rules allow carry the call and a verdict."""

    __slots__ = ("_api", "_described", "_library")

    def __init__(self, library: Library, api: str, described: Described) -> None:
        self._library, self._api, self._described = library, api, described

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, AclError):
            return
        # A late fault may be that of another launch, which it then names itself.
        if not (isinstance(error, DeviceFaultError) and len(error.launches) > 1):
            describe(error, self._library, self._api, self._described)
        from aclnn_kvcache.explain.context import evidence_of  # most processes never need it
        from aclnn_kvcache.explain.verdict import judge

        verdict = judge(evidence_of(error, self._library, rules_asked=True))
        if verdict:
            error.attach(verdict=verdict)


def describe(error: AclError, library: Library, api: str, described: Described) -> None:
    """Tells an error which call it is about."""
    arguments, attributes = described
    error.attach(operator=api, arguments=arguments, attributes=attributes)
    if not error.library:
        from aclnn_kvcache.explain.context import locate

        locate(error, library, f"{api}{PHASE_1}")
