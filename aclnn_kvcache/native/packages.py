# SPDX-License-Identifier: Apache-2.0
"""Versions of the packages that make up an installation, from their files. An unreadable file is a fact, no error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

TOGETHER = ("runtime", "opbase", "ops-transformer")
"""The packages that a call goes through: all of one release."""

MISSING = "no such file"
MUTE = "it states no version"

_PUBLIC = re.compile(r"(\d+)\.(\d+)(?:\.(?:RC|T)?(\d+))?(?:[-.]?(?:alpha|beta)[.\d]*)?", re.I)
_BLOCK = re.compile(r"(\w+)_running_version=\[[^:\]]*:([^\]]+)\]")
_REQUIRED = re.compile(r"required_package_(.+)_version")
_BOUND = re.compile(r"\s*(>=|<=|==|=|>|<)\s*(\S+)\s*")


class Package(NamedTuple):
    """A package and the file that tells its version."""

    name: str
    path: str
    version: str
    """As the file writes it; empty if it does not tell."""
    fault: str = ""
    """Why it does not: "no such file", "unreadable: ...", or that it states none; empty if it does."""
    requires: Mapping[str, str] = {}
    """By package, the versions that this one asks for, such as ">=9.1.0"."""


def packages(root: str | Path) -> list[Package]:
    """Every package below a root of CANN, once, in the layouts of all releases.

    From 8.5 on ``share/info/<package>/version.info``; before that ``<package>/version.info`` (with an internal number),
    ``version.cfg`` (with the public one), and ``<arch>-linux/ascend_<kind>_install.info``.
    """
    found: dict[str, Package] = {}
    for package in [*_merged(Path(root)), *_single(Path(root)), *_installed(Path(root))]:
        found.setdefault(package.name, package)
    return sorted(found.values())


def driver(root: Path = Path("/")) -> Package:
    """The driver, from the folder that ``/etc/ascend_install.info`` names, or the default one."""
    return package("driver", driver_folder(root) / "version.info")


def driver_folder(root: Path = Path("/")) -> Path:
    """Where the driver is, or would be by default. ``root`` stands for the root of the file system."""
    lines, _ = _lines(root / "etc/ascend_install.info")
    base = next((value for key, value in lines if key == "Driver_Install_Path_Param"), "") or "/usr/local/Ascend"
    return root / base.lstrip("/") / "driver"


def package(name: str, path: Path) -> Package:
    """What a ``version.info`` tells."""
    lines, fault = _lines(path)
    version = next((value for key, value in lines if key == "Version"), "")
    requires = {found[1].replace("_", "-"): value for key, value in lines if (found := _REQUIRED.fullmatch(key))}
    return Package(name, str(path), version, fault or ("" if version else MUTE), requires)


def mismatches(found: Iterable[Package]) -> list[str]:
    """What does not belong together, readable: packages of different releases, unmet requirements.

    Versions that are no public ones (``X.Y.Z``, ``X.Y.RCn``) are not compared.
    """
    by_name = {item.name: item for item in found}
    together = [by_name[name] for name in TOGETHER if name in by_name and _number(by_name[name].version)]
    texts = [
        f"{together[0].name} is {together[0].version}, but {other.name} is {other.version}"
        for other in together[1:]
        if _number(other.version)[:2] != _number(together[0].version)[:2]
    ]
    for item in by_name.values():
        for name, wanted in item.requires.items():
            other = by_name.get(name)
            if other is not None and not _meets(other.version, wanted):
                texts.append(f"{item.name} {item.version} asks for {name} {wanted}, but {name} is {other.version}")
    return texts


def _meets(version: str, wanted: str) -> bool:
    number = _number(version)
    for bound in wanted.strip("\"'").split(","):
        matched = _BOUND.fullmatch(bound)
        limit = _number(matched[2]) if matched else ()
        if not matched or not number or not limit:
            continue  # nothing to compare
        # A pre-release counts as its release: 9.1.0-beta.1 meets >=9.1.0.
        holds = {">=": number >= limit, "<=": number <= limit, ">": number > limit, "<": number < limit}
        if not holds.get(matched[1], number == limit):
            return False
    return True


def _number(version: str) -> tuple[int, ...]:
    matched = _PUBLIC.fullmatch(version)
    return tuple(int(part or 0) for part in matched.groups()) if matched else ()


def _single(root: Path) -> Iterator[Package]:
    for pattern in ("share/info/*/version.info", "*-linux/*/version.info", "*/version.info"):
        for path in _glob(root, pattern):
            yield package(path.parent.name.replace("_", "-"), path)


def _merged(root: Path) -> Iterator[Package]:
    path = root / "version.cfg"
    lines, fault = _lines(path)
    if fault and fault != MISSING:
        yield Package("version.cfg", str(path), "", fault)
    for key, value in lines:
        if matched := _BLOCK.match(f"{key}={value}"):
            yield Package(matched[1].replace("_", "-"), str(path), matched[2])


def _installed(root: Path) -> Iterator[Package]:
    for path in _glob(root, "*-linux/ascend_*_install.info"):
        lines, fault = _lines(path)
        facts = dict(lines)
        version = facts.get("version", "")
        yield Package(facts.get("package_name") or path.name, str(path), version, fault or ("" if version else MUTE))


def _lines(path: Path) -> tuple[list[tuple[str, str]], str]:
    """The lines ``key=value`` of a file, or why there are none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return [], MISSING
    except OSError as error:
        return [], f"unreadable: {error.strerror}"
    split = (line.partition("=") for line in text.splitlines() if "=" in line)
    return [(key.strip(), value.strip().strip('"')) for key, _, value in split], ""


def _glob(root: Path, pattern: str) -> list[Path]:
    try:
        return sorted(root.glob(pattern))
    except OSError:
        return []
