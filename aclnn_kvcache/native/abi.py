# SPDX-License-Identifier: Apache-2.0
"""The operator header that is installed beside an operator library.

A symbol does not tell its argument list; the header that came with the library does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from aclnn_kvcache.errors import AbiMismatchError
from aclnn_kvcache.native.prototypes import HEADERS, Prototype, read_headers


def installed_prototype(ours: Prototype, library_path: str) -> Prototype | None:
    """What the installed header declares for this function; None without a header, or for anything but an operator.

    Raises AbiMismatchError for a header that does not declare it, or with types that this package does not know.
    """
    if not ours.header.startswith("aclnnop/") or not os.path.isabs(library_path):
        return None
    types = read_headers(header for header in HEADERS if not header.startswith("aclnnop/"))
    for path in _headers(ours.header, Path(library_path)):
        if path.is_file():
            try:
                types.read(str(path), path.read_text(encoding="utf-8", errors="replace"))
            except ValueError as error:
                message = f"{path}, installed with {library_path}, declares what this package cannot call: {error}"
                raise AbiMismatchError(message) from error
            if ours.name not in types.prototypes:
                raise AbiMismatchError(f"{path}, installed with {library_path}, has no declaration of {ours.name}")
            return types.prototypes[ours.name]
    return None


def _headers(header: str, library: Path) -> Iterator[Path]:
    for parent in list(library.parents)[:3]:
        yield parent / "include" / header
        yield parent / "include" / Path(header).name
