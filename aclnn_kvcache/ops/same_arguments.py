# SPDX-License-Identifier: Apache-2.0
"""Methods that take the arguments of another."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def arguments_of(
    other: Callable[Parameters, object],
) -> Callable[[Callable[[Any, dict[str, Any]], Result]], Callable[Parameters, Result]]:
    """Decorates a method that gets the arguments of the other by name, in a dictionary: it has the signature of that,
    but for the result."""
    taken = signature(other)

    def decorate(method: Callable[[Any, dict[str, Any]], Result]) -> Callable[Parameters, Result]:
        @wraps(method)
        def with_names(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Result:
            bound = taken.bind(*arguments, **keywords)
            bound.apply_defaults()
            owner, *names = bound.arguments
            return method(bound.arguments[owner], {name: bound.arguments[name] for name in names})

        with_names.__signature__ = taken.replace(  # type: ignore[attr-defined]
            return_annotation=signature(method).return_annotation
        )
        return with_names

    return decorate
