# SPDX-License-Identifier: Apache-2.0
"""Whether an operator's kernels are in the installed operator packages. Nothing is opened, and nothing raises.

Kernels lie below ``<package>/op_impl/ai_core/tbe/kernel``, in folders of a product (``ascend950``) and its ``config``.
How deep, and under which file names, differs between packages and releases: any folder or file named like the operator,
or a list of kernels that holds its name, counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from aclnn_kvcache.native.discovery import custom_packages
from aclnn_kvcache.native.installation import root_of

KERNELS = "op_impl/ai_core/tbe/kernel"
PRODUCT = "Ascend950"
"""The product that both operators are made for."""
DEPTH = 5
"""Levels of folders below the kernels' that are searched."""


class KernelPackage(NamedTuple):
    found: bool | None
    """None if that cannot be told: no operator package is known, or a part of it is unreadable."""
    path: str
    """The file or folder that shows it, or empty."""
    searched: tuple[str, ...]
    """The folders looked for and through, each with what came of it."""

    def __str__(self) -> str:
        return self.path or "; ".join(self.searched) or "no operator package is known here"


def kernel_package(api: str, library: str, environ: Mapping[str, str], product: str = PRODUCT) -> KernelPackage:
    """Looks for an operator's kernels for the product, as CANN's ``aclrtGetSocName`` or ``Ascend950`` names it.

    ``api`` is the operator's C function (``aclnnScatterPaKvCacheWithKScale``), ``library`` the path of a library of the
    installation that is used.
    """
    operator = api.removeprefix("aclnn")
    family = re.match(r"[a-z]*\d*", product.lower())
    search = _Search(_squeezed(operator), operator.encode(), family[0] if family else "")
    is_known = False
    for package in _packages(library, environ):
        kernels = package / KERNELS
        if not os.path.isdir(package):
            search.log.append(f"{package}: no such folder")
            continue
        is_known = True
        if not os.path.isdir(kernels):
            search.log.append(f"{kernels}: no such folder")
        elif path := search.below(kernels):
            return KernelPackage(True, path, (*search.log, f"{kernels}: found"))
        else:
            search.log.append(f"{kernels}: nothing of {operator} for {product}")
    return KernelPackage(False if is_known and not search.unreadable else None, "", tuple(search.log))


class _Search:
    def __init__(self, name: str, word: bytes, family: str) -> None:
        self.name, self.word, self.family = name, word, family
        self.log: list[str] = []
        self.unreadable = False

    def below(self, folder: Path, depth: int = DEPTH, of_product: bool = False) -> str:
        """The first entry that belongs to the operator, or an empty string."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self._note(folder, error)
            return ""
        for entry in entries:
            name = entry.name.lower()
            if of_product and (_squeezed(name).startswith(self.name) or self._lists(entry)):
                return entry.path
            other_product = name.startswith("ascend") and not name.startswith(self.family)
            if depth and os.path.isdir(entry.path) and not other_product:
                found = self.below(Path(entry.path), depth - 1, of_product or name.startswith(self.family))
                if found:
                    return found
        return ""

    def _lists(self, entry: os.DirEntry[str]) -> bool:
        """Whether this is a package's list of its kernels, with the operator in it."""
        if entry.name != "binary_info_config.json":
            return False
        try:
            return b'"%s"' % self.word in Path(entry.path).read_bytes()
        except OSError as error:
            self._note(entry.path, error)
            return False

    def _note(self, path: object, error: OSError) -> None:
        self.unreadable = True
        self.log.append(f"{path}: unreadable: {error.strerror}")


def _packages(library: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """The folders above ``op_impl``: custom packages, then the built-in one, which is searched wherever it may be."""
    yield from dict.fromkeys(Path(package) for package, _ in custom_packages(environ) if os.path.isabs(package))
    home, opp = environ.get("ASCEND_HOME_PATH", ""), environ.get("ASCEND_OPP_PATH", "")
    folders = [home and f"{home}/opp_latest", opp, f"{root_of(library)}/opp" if os.path.isabs(library) else ""]
    if not os.path.isdir(folders[0]):
        del folders[0]  # only some releases have it
    yield from (
        Path(path) / "built-in" for path in dict.fromkeys(map(os.path.realpath, filter(os.path.isabs, folders)))
    )


def _squeezed(name: str) -> str:
    """A name as it is in any spelling: ScatterPaKvCache, scatter_pa_kv_cache and Scatter_Pa_KV_Cache are one."""
    return name.lower().replace("_", "").replace("-", "")
