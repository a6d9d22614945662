# SPDX-License-Identifier: Apache-2.0
"""Devices and driver as the file system and the environment show them. Nothing is opened, and nothing raises.

``root`` stands for the root of the file system.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from aclnn_kvcache.native.packages import driver_folder

VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
MANAGER = "davinci_manager"
HAL = "libascend_hal.so"


class Node(NamedTuple):
    path: str
    usable: bool
    """This user may read and write it."""
    owner: str
    group: str
    mode: str
    """As ``ls -l`` shows it."""

    @property
    def device(self) -> int | None:
        """The device's physical id; None for a node that is no device's, such as the manager's."""
        matched = re.fullmatch(r"v?davinci(\d+)", Path(self.path).name)
        return int(matched[1]) if matched else None


def device_nodes(root: Path = Path("/")) -> list[Node]:
    """``/dev/davinci<N>`` (``vdavinci<N>`` for a part of a device) and ``/dev/davinci_manager``, devices in order."""
    try:
        names = [name for name in os.listdir(root / "dev") if re.fullmatch(rf"v?davinci\d+|{MANAGER}", name)]
    except OSError:
        return []
    nodes = [node for name in names if (node := _node(root / "dev" / name)) is not None]
    return sorted(nodes, key=lambda node: (node.device is None, node.device, node.path))


def _node(path: Path) -> Node | None:
    try:
        found = path.stat()
    except OSError:
        return None
    usable = os.access(path, os.R_OK | os.W_OK)
    return Node(str(path), usable, _user(found.st_uid), _group(found.st_gid), stat.filemode(found.st_mode))


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


class DriverLibrary(NamedTuple):
    path: str
    """Where libascend_hal.so is, or empty."""
    searched: tuple[str, ...]


def driver_library(environ: Mapping[str, str], root: Path = Path("/")) -> DriverLibrary:
    """The driver's library: in LD_LIBRARY_PATH, then in the driver's own folders."""
    entries = [root / entry.lstrip("/") for entry in environ.get("LD_LIBRARY_PATH", "").split(":") if entry[:1] == "/"]
    own = driver_folder(root) / "lib64"
    folders = list(dict.fromkeys([*entries, own, own / "common", own / "driver"]))
    path = next((folder / HAL for folder in folders if os.path.exists(folder / HAL)), "")
    return DriverLibrary(str(path), tuple(map(str, folders)))


class VisibleDevices(NamedTuple):
    """What ASCEND_RT_VISIBLE_DEVICES says. Devices are numbered from 0 in the order of ``physical``."""

    text: str | None
    """None if the variable is not set: every device is visible."""
    physical: tuple[int, ...]
    faults: tuple[str, ...]
    """What CANN refuses (207004, or devices that are missing), readable; empty if nothing."""


def visible_devices(environ: Mapping[str, str], present: Collection[int] = ()) -> VisibleDevices:
    """Reads the variable: physical ids, comma-separated, ascending. ``present`` are those of the device nodes, if any.

    Only ids up to the first fault count.
    """
    text = environ.get(VISIBLE)
    if text is None:
        return VisibleDevices(None, tuple(sorted(present)), ())
    ids: list[int] = []
    faults: list[str] = []
    for word in text.split(","):
        fault = _fault(word, ids, present)
        if fault:
            faults.append(fault)
        elif not faults:
            ids.append(int(word))
    return VisibleDevices(text, tuple(ids), tuple(faults))


def _fault(word: str, before: list[int], present: Collection[int]) -> str:
    if not re.fullmatch(r"[0-9]{1,9}", word):
        return f"{word!r} is not a device's number" if word else "an entry is empty"
    if before and int(word) <= before[-1]:
        return f"{word} follows {before[-1]}: ids must ascend, each once"
    if present and int(word) not in present:
        return f"there is no device {word}: present are {', '.join(map(str, sorted(present)))}"
    return ""
