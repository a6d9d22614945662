# SPDX-License-Identifier: Apache-2.0
"""Which argument list an operator of the loaded library has, and how ours is passed to it.

A symbol does not tell its arguments. The header installed beside the library does; where there is none, the caller can
state the revision. Either names the revision, whose arguments are then passed, matched by name: one more that may be
NULL, or another order, is no obstacle.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from aclnn_kvcache.errors import AbiMismatchError
from aclnn_kvcache.native.prototypes import HEADERS, Declarations, Prototype, read_headers
from aclnn_kvcache.native.revisions import QKV_ABI, REVISIONS

OUR_HEADER = "the header of this package; the function has had one argument list in all known releases"


class Passed(NamedTuple):
    """What fills one parameter: our argument of that position, or NULL if that is None."""

    position: int | None


class Binding(NamedTuple):
    """The prototype in force, where it comes from, and how our arguments fill it."""

    prototype: Prototype
    source: str
    passed: tuple[Passed, ...]
    differences: tuple[str, ...]
    """How it differs from our declaration of the revision, readable; empty if it does not."""
    revision: str | None = None
    """None for a function that has had one argument list only."""

    @property
    def is_ours(self) -> bool:
        return [p.position for p in self.passed] == list(range(len(self.passed)))

    def arrange(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The arguments of the revision, in its order, in that of the prototype in force."""
        return [None if p.position is None else arguments[p.position] for p in self.passed]


def bind(ours: Prototype, library_path: str, stated: str | None = None) -> Binding:
    """Settles the prototype of a function that ``library_path`` exports. ``stated`` is a revision, if one was stated.

    ``ours`` is our header's prototype: that of revision A for a function that has several.

    Raises AbiMismatchError if the header contradicts the statement, if neither is there for a function that has had
    several argument lists, or if ours cannot be passed to the one in force.
    """
    installed = _installed(ours, library_path)
    revisions = _revisions(ours)
    declared = revisions.get(stated or "")
    if installed is not None and declared is not None and _shape(installed) != _shape(declared):
        raise AbiMismatchError(
            f"{ours.name}: revision {stated!r} was stated, but the header installed with {library_path} contradicts it."
            f"\n  header {installed.header}: {installed}\n  stated: {declared}\n  Nothing is called. Drop the "
            f"statement or correct the installation."
        )
    if installed is not None:
        revision = _nearest(installed, revisions)
        return _match(
            revisions.get(revision or "", ours),
            installed,
            f"the installed header {installed.header}",
            library_path,
        )._replace(revision=revision)
    if declared is not None:
        return _match(declared, declared, f"revision {stated!r}, as stated", library_path)._replace(revision=stated)
    if revisions:
        raise AbiMismatchError(
            f"{ours.name} has had {len(REVISIONS[ours.name])} argument lists under one name, and no header is "
            f"installed with {library_path} that tells which this is. Nothing is called. State the revision: "
            f"qkv_abi={' or '.join(map(repr, REVISIONS[ours.name]))}, or environment variable {QKV_ABI}; it belongs to "
            f"the release the library was built from."
        )
    return _match(ours, ours, OUR_HEADER, library_path)


def _installed(ours: Prototype, library_path: str) -> Prototype | None:
    if not os.path.isabs(library_path):
        return None
    path = next((path for path in _headers(ours.header, Path(library_path)) if path.is_file()), None)
    if path is None:
        return None
    try:
        declared = _read(str(path), path.read_text(encoding="utf-8", errors="replace"))
    except ValueError as error:
        raise AbiMismatchError(
            f"{path}, installed with {library_path}, declares what this package cannot call: {error}"
        ) from error
    if ours.name not in declared.prototypes:
        raise AbiMismatchError(f"{path}, installed with {library_path}, has no declaration of {ours.name}")
    return declared.prototypes[ours.name]


def _headers(header: str, library: Path) -> Iterator[Path]:
    for parent in list(library.parents)[:3]:
        yield parent / "include" / header
        yield parent / "include" / Path(header).name


def _revisions(ours: Prototype) -> dict[str, Prototype]:
    """The declarations of all revisions of a function, oldest first; empty if it has had one only."""
    texts = REVISIONS.get(ours.name, {})
    return {
        revision: ours if text is None else _read(ours.header, text).prototypes[ours.name]
        for revision, text in texts.items()
    }


def _nearest(installed: Prototype, revisions: Mapping[str, Prototype]) -> str | None:
    """The newest revision whose additions to the first are all in the header."""
    names = _names(installed)
    first = next(iter(revisions.values()), None)
    fitting = [r for r, prototype in revisions.items() if first and _names(prototype) - _names(first) <= names]
    return fitting[-1] if fitting else None


def _names(prototype: Prototype) -> set[str]:
    return {_plain(parameter.name) for parameter in prototype.parameters}


def _read(header: str, text: str) -> Declarations:
    declarations = read_headers(name for name in HEADERS if not name.startswith("aclnnop/"))
    declarations.read(header, text)
    return declarations


def _plain(name: str) -> str:
    """A parameter's name without the suffixes that revisions add and drop."""
    return re.sub(r"(Ref|Optional)$", "", name)


def _shape(prototype: Prototype) -> list[tuple[str, str]]:
    return [(_plain(p.name), p.c_type) for p in prototype.parameters]


def _match(ours: Prototype, theirs: Prototype, source: str, library_path: str) -> Binding:
    positions = {_plain(parameter.name): position for position, parameter in enumerate(ours.parameters)}
    passed: list[Passed] = []
    obstacles: list[str] = []
    differences: list[str] = []
    for parameter in theirs.parameters:
        position = positions.pop(_plain(parameter.name), None)
        if position is not None and ours.parameters[position].c_type == parameter.c_type:
            passed.append(Passed(position))
        elif position is not None:
            obstacles.append(f"{parameter.name} is {parameter.c_type}, not {ours.parameters[position].c_type}")
        elif parameter.name.endswith("Optional") and parameter.c_type.endswith("*"):
            passed.append(Passed(None))
            differences.append(f"{parameter.name} ({parameter.c_type}) is theirs alone and gets NULL")
        else:
            obstacles.append(f"{parameter.name} ({parameter.c_type}) is not known here and may not be NULL")
    obstacles += [f"{ours.parameters[position].name} is missing" for position in positions.values()]
    if obstacles or theirs.c_result != ours.c_result:
        raise AbiMismatchError(
            f"{library_path} exports {ours.name}, but by {source} it takes other arguments than this package passes: "
            f"{'; '.join(obstacles) or 'another result'}.\n  in force: {theirs}\n  expected: {ours}\n  Nothing is "
            f"called. Use a release whose header has the expected arguments, or a package version made for this one."
        )
    moved = [p.position for p in passed if p.position is not None]
    if moved != sorted(moved):
        differences.append("the arguments stand in another order")
    return Binding(theirs, source, tuple(passed), tuple(differences))
