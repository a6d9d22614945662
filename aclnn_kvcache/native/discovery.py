# SPDX-License-Identifier: Apache-2.0
"""Where the libraries may be, in order, each place with its reason. Nothing is opened here.

The order: the ``library_dir`` argument; ``ACLNN_KVCACHE_LIB_DIR``; else the folders of the installation
(``ASCEND_HOME_PATH``, ``ASCEND_TOOLKIT_HOME``, the default install roots, the system loader), with custom operator
packages before the operator libraries of the folder, ordered as CANN orders them. The working directory and relative
paths are never searched.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

RUNTIME = ("libascendcl.so", "libacl_rt.so")
SUPPORT = ("libnnopbase.so",)
OPERATORS = ("libopapi_transformer.so", "libopapi.so")
CUSTOM = "libcust_opapi.so"

OVERRIDE = "ACLNN_KVCACHE_LIB_DIR"
BUNDLED = "the simulator bundled with this package"
BACKENDS = ("auto", "cann", "simulator")
REVISION_FOLDERS = {"B": "rev_b", "C": "rev_c"}
"""Where the simulator keeps the libraries of later revisions of the fused operator."""
RELATIVE = "a relative path is never searched"


class Folder(NamedTuple):
    """A folder that may hold a whole set of libraries; an empty path stands for the system loader."""

    path: str
    reason: str
    skipped: str = ""
    """Why it is not searched, or empty."""
    exclusive: bool = False
    """Chosen by the caller or bundled: no custom operator package is added to what it holds."""


class Candidate(NamedTuple):
    path: str
    reason: str
    skipped: str = ""


def folders(
    backend: str,
    library_dir: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    qkv_abi: str | None = None,
) -> list[Folder]:
    """The folders to search for the backend, best first.

    A folder named by the argument or by ``ACLNN_KVCACHE_LIB_DIR`` is the only one: what it lacks is not taken from
    elsewhere, so that two installations never mix. ``qkv_abi`` is the stated revision of the fused operator, for which
    the simulator has a folder each, inside that of revision A.
    """
    revision_folder = REVISION_FOLDERS.get(qkv_abi or "", "")
    if library_dir is not None:
        return [_absolute(os.fspath(library_dir), "the library_dir argument", exclusive=True)]
    if environ.get(OVERRIDE):
        named = environ[OVERRIDE]
        if backend == "simulator" and os.path.isdir(os.path.join(named, revision_folder)):
            named = os.path.join(named, revision_folder) if revision_folder else named
        return [_absolute(named, f"environment variable {OVERRIDE}", exclusive=True)]
    if backend == "simulator":
        return list(_bundled(revision_folder))
    return [*_installations(environ), *_loader_path(environ)]


def later_revisions(folder: str) -> list[str]:
    """The revisions whose libraries lie inside a folder with those of the first."""
    return [revision for revision, name in REVISION_FOLDERS.items() if os.path.isdir(os.path.join(folder, name))]


def operator_libraries(folder: Folder, environ: Mapping[str, str]) -> list[Candidate]:
    """The libraries that may hold an operator, first hit wins: custom packages, then those of the folder."""
    found = [] if folder.exclusive else list(_custom_libraries(environ))
    if not folder.path:
        return found + [Candidate(name, folder.reason) for name in OPERATORS]
    split = sorted(path.name for path in Path(folder.path).glob("libopapi_*.so"))
    names = dict.fromkeys([CUSTOM, *OPERATORS[:1], *split, *OPERATORS[1:]])
    return found + [Candidate(str(Path(folder.path, name)), folder.reason) for name in names]


def _absolute(path: str, reason: str, exclusive: bool = False) -> Folder:
    return Folder(path, reason, "" if os.path.isabs(path) else RELATIVE, exclusive)


def _bundled(revision_folder: str) -> Iterator[Folder]:
    from importlib.metadata import PackageNotFoundError, distribution  # costs more to import than all of this package

    import aclnn_kvcache

    # An editable install keeps built files beside site-packages and the sources in the checkout; a checkout that is
    # imported in front of an installed package has no built files at all.
    packages = [Path(path) for path in aclnn_kvcache.__path__]
    with suppress(PackageNotFoundError):
        packages.append(Path(str(distribution("aclnn-kvcache").locate_file("aclnn_kvcache"))))
    for package in dict.fromkeys(packages):
        yield Folder(str(package / "simulator" / "lib" / revision_folder), BUNDLED, exclusive=True)


def _installations(environ: Mapping[str, str]) -> Iterator[Folder]:
    home = environ.get("HOME", "")
    roots = [
        (environ.get(name, ""), f"environment variable {name}") for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
    ]
    roots += [
        (root, "default install root")
        for root in (
            "/usr/local/Ascend/cann",
            home and f"{home}/Ascend/cann",
            "/opt/Ascend/cann",
            "/usr/local/Ascend/ascend-toolkit/latest",
            home and f"{home}/Ascend/ascend-toolkit/latest",
        )
    ]
    for root, reason in roots:
        if root:
            for folder in ("lib64", f"{platform.machine()}-linux/lib64"):
                yield _absolute(os.path.join(root, folder), reason)


def _loader_path(environ: Mapping[str, str]) -> Iterator[Folder]:
    entries = environ["LD_LIBRARY_PATH"].split(":") if environ.get("LD_LIBRARY_PATH") else []
    for entry in entries:
        yield _absolute(entry, "an entry of LD_LIBRARY_PATH")
    # The loader itself would search relative entries of LD_LIBRARY_PATH, an empty one being the working directory.
    relative = not all(os.path.isabs(entry) for entry in entries)
    yield Folder("", "the system loader", "LD_LIBRARY_PATH has a relative or empty entry" if relative else "")


def custom_packages(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Folders of custom operator packages, each with its reason, in CANN's order.

    ASCEND_CUSTOM_OPP_PATH, then the vendors of ASCEND_OPP_PATH by their load_priority.
    """
    for package in filter(None, environ.get("ASCEND_CUSTOM_OPP_PATH", "").split(":")):
        yield package, "environment variable ASCEND_CUSTOM_OPP_PATH"
    config = _vendors(environ) / "config.ini"
    text = ""
    if config.is_absolute():
        with suppress(OSError):  # not there, or not for this user
            text = config.read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines():
        if line.startswith("load_priority="):
            for vendor in filter(None, map(str.strip, line.partition("=")[2].split(","))):
                yield str(config.parent / vendor), f"load_priority in {config}"
            return


def _vendors(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("ASCEND_OPP_PATH", ""), "vendors")


def _custom_libraries(environ: Mapping[str, str]) -> Iterator[Candidate]:
    for package, reason in custom_packages(environ):
        yield _custom(package, reason)
    if environ.get("ASCEND_OPP_PATH") and not _vendors(environ).is_absolute():
        yield Candidate(str(_vendors(environ) / "config.ini"), "environment variable ASCEND_OPP_PATH", RELATIVE)


def _custom(package: str, reason: str) -> Candidate:
    path = os.path.join(package, "op_api", "lib", CUSTOM)
    if not os.path.isabs(path):
        return Candidate(path, reason, RELATIVE)
    path = os.path.realpath(path)
    if os.path.exists(path):
        owner = os.stat(path).st_uid
        # CANN's own rule: a library that another ordinary user could have put there is not loaded.
        if owner not in (os.geteuid(), 0):
            return Candidate(path, reason, f"owned by user {owner}, neither root nor this user")
    return Candidate(path, reason)
