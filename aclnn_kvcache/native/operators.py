# SPDX-License-Identifier: Apache-2.0
"""The operators' functions in a loaded library: where each is, and which argument list is in force."""

from __future__ import annotations

from typing import NamedTuple

from aclnn_kvcache.errors import AbiMismatchError, SymbolNotFoundError
from aclnn_kvcache.native.library import Library
from aclnn_kvcache.native.prototypes import declarations


class OperatorFunction(NamedTuple):
    name: str
    library: str
    """Path of the library that exports it, or empty."""
    prototype: str
    source: str
    """Where the prototype in force comes from."""
    differences: tuple[str, ...]
    """How that differs from our declaration of the revision."""
    missing: bool
    """No library exports it."""
    error: str
    """Why it cannot be called, or empty."""
    revision: str | None = None
    """Of an operator that has had several argument lists."""


def operator_functions(library: Library) -> list[OperatorFunction]:
    """Both functions of every operator of this package. Nothing is called."""
    names = [name for name, p in declarations().prototypes.items() if p.header.startswith("aclnnop/")]
    return [_function(library, name) for name in names]


def _function(library: Library, name: str) -> OperatorFunction:
    try:
        path, binding = library.binding(name)
    except (SymbolNotFoundError, AbiMismatchError) as error:
        return OperatorFunction(name, "", "", "", (), isinstance(error, SymbolNotFoundError), str(error))
    facts = (str(binding.prototype), binding.source, binding.differences)
    return OperatorFunction(name, path, *facts, False, "", binding.revision)
