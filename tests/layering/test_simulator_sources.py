# SPDX-License-Identifier: Apache-2.0
"""The simulator is C on its own: it knows nothing of its callers and includes nothing from outside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "aclnn_kvcache"
SIMULATOR, HEADERS = PACKAGE / "simulator", PACKAGE / "include"

C11 = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbool stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype"
)
POSIX = "fcntl pthread unistd sys/mman sys/stat sys/types"
SYSTEM = {f"{name}.h" for name in f"{C11} {POSIX}".split()}

LAYERS = {"core": (), "ascendcl": ("core",), "nnopbase": ("core",), "opapi": ("core", "nnopbase")}
"""The folders, and the others whose internals each may use. Everything else goes through the public headers."""

CALLERS = re.compile(r"\bpython|numpy|ctypes|ml_dtypes|pytest", re.I)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^">]+)[">]', re.M)


def problems(path: Path, text: str) -> list[str]:
    found = [f"{path}: mentions {word}" for word in CALLERS.findall(text)]
    folder = path.relative_to(SIMULATOR).parts[0]
    allowed = {folder, *LAYERS[folder]}
    for bracket, name in INCLUDE.findall(text):
        if bracket == "<":
            good = name in SYSTEM
        else:
            target = next(
                (t for root in (path.parent, SIMULATOR, HEADERS) if (t := (root / name).resolve()).is_file()), None
            )
            inside = target is not None and target.is_relative_to(SIMULATOR)
            good = target is not None and (
                target.relative_to(SIMULATOR).parts[0] in allowed if inside else target.is_relative_to(HEADERS)
            )
        found += [] if good else [f"{path}: includes {name}"]
    return found


def sources() -> list[Path]:
    return sorted([*SIMULATOR.rglob("*.c"), *SIMULATOR.rglob("*.h")])


def test_sources_stand_alone() -> None:
    assert {path.relative_to(SIMULATOR).parts[0] for path in sources()} == set(LAYERS)
    assert [p for path in sources() for p in problems(path, path.read_text(encoding="utf-8"))] == []


def test_every_source_names_its_licence() -> None:
    files = [*sources(), *HEADERS.rglob("*.h"), *PACKAGE.rglob("*.py")]
    assert [
        f for f in files if "SPDX-License-Identifier: Apache-2.0" not in f.read_text("utf-8").split("\n", 1)[0]
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        "/* called from Python */",
        "#include <Python.h>",
        "#include <stdio_ext.h>",
        '#include "../../../elsewhere.h"',
        '#include "opapi/scatter.h"',
        '#include "missing.h"',
    ],
)
def test_violations_are_caught(line: str) -> None:
    assert problems(SIMULATOR / "core" / "memory.c", line)
