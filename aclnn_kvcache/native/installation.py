# SPDX-License-Identifier: Apache-2.0
"""Which installations of CANN the libraries in this process come from. Nothing is opened, and nothing raises."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from aclnn_kvcache.native.mappings import mappings

_LIBRARY = re.compile(r"lib(ascendcl|acl_\w+|runtime|nnopbase|opapi(_\w+)?|ge_\w+|hccl(_\w+)?)\.so[.\d]*")
"""CANN's own libraries. Those of the driver (libascend_hal and its neighbours) come from a folder of their own."""

_COMPONENTS = ("runtime", "compiler", "toolkit", "hccl", "opp")
"""Folders between a root and its lib64 in releases up to 8.3."""


class Root(NamedTuple):
    """A root of CANN (what ASCEND_HOME_PATH names) and the files of it that are meant."""

    path: str
    libraries: tuple[str, ...]


def root_of(library: str | Path) -> str:
    """The root that a library belongs to, links resolved: the folder above ``lib64`` or ``<arch>-linux/lib64``.

    A library that lies in no such folder (a simulator's, say) has its own folder for a root.
    """
    path = Path(os.path.realpath(library))
    for folder in path.parents:
        if folder.name in ("lib64", "opp"):
            above = folder.parent
            inner = above.name.endswith("-linux") or above.name in _COMPONENTS
            return str(above.parent if inner else above)
    return str(path.parent)


def roots_of(files: Iterable[str]) -> list[Root]:
    """The distinct roots of the CANN libraries among the files, in the order of their first library."""
    found: dict[str, dict[str, None]] = {}
    for file in files:
        path = Path(file.removesuffix(" (deleted)"))
        if _LIBRARY.fullmatch(path.name):
            found.setdefault(root_of(path), {})[str(path)] = None
    return [Root(path, tuple(libraries)) for path, libraries in found.items()]


def mapped_roots() -> list[Root]:
    """The distinct roots of the CANN libraries mapped into this process. More than one is a mixed installation."""
    files: list[str] = []
    with suppress(OSError):  # no /proc: nothing is known
        files = [file for _, _, file in mappings()]
    return roots_of(files)
