# SPDX-License-Identifier: Apache-2.0
"""The package's inner borders, as data, and a walk over the syntax of every module that holds them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "aclnn_kvcache"
ROOT = Path(__file__).parents[2] / PACKAGE

# The package itself: its version, its folder.
TOP = "__init__"
BASE = {"status", "dtypes", "layout"}
NATIVE = {"errors", *BASE}
EXPLAIN = {"native", "rules", *NATIVE}
RUNTIME = {"explain", *EXPLAIN}
LAUNCH = {"runtime", *RUNTIME}
OPS = {"launch", *LAUNCH}
BUNDLE = {TOP, *LAUNCH}
SESSION = {"ops", "bundle", TOP, *OPS}
PREFLIGHT = {"ops", *OPS}
SMOKE = {"session", "oracle", "compare", TOP, *SESSION}

MAY_IMPORT: dict[str, set[str]] = {
    "status": set(),
    "dtypes": set(),
    "layout": set(),
    "oracle": set(),
    "compare": BASE,
    "rules": {"errors", *BASE},
    "errors": BASE,
    "explain": EXPLAIN,
    "native": {TOP, *NATIVE},
    "runtime": RUNTIME,
    "launch": LAUNCH,
    "ops": OPS,
    "bundle": BUNDLE,
    "session": SESSION,
    "preflight": PREFLIGHT,
    "smoke": SMOKE,
    "doctor": {"smoke", *SMOKE},
    "bench": SMOKE,
    "replay": SMOKE,
    "cli": {"bench", "doctor", "smoke", "replay", *SMOKE},
    TOP: {"oracle", "compare", "preflight", "session", *SESSION},
    "__main__": {"cli"},
}
"""For each unit (a module or folder right below the package) the others that it may import. Arrows go down only."""

EXTERNAL = {"numpy", "ml_dtypes"}
"""The only packages beside the standard library; so nothing ever imports torch."""

ORACLE_IMPORTS = {"__future__", "collections", "math", "typing", *EXTERNAL}
"""The oracle is arithmetic on arrays and no more."""


class Restricted(NamedTuple):
    """Names and whole strings that only some modules may hold."""

    what: str
    pattern: re.Pattern[str]
    allowed: tuple[str, ...]
    """Dotted names below the package, of modules or of folders."""


RESTRICTED = (
    Restricted("ctypes", re.compile("_?ctypes"), ("native", "runtime", "launch", "bench.loops")),
    Restricted(
        "opening a library", re.compile("(Py|Win|Ole)?DLL|CDLL|cdll|pydll|dlopen|LoadLibrary"), ("native.library",)
    ),
    Restricted("looking for a library behind discovery's back", re.compile("find_library"), ()),
    Restricted("imports that this test cannot see", re.compile("__import__|import_module|exec|eval"), ()),
    Restricted(
        "raw handles",
        re.compile(
            "acl(rt)?(Create|Destroy|Malloc|Free|Memcpy|Memset|Record|Synchronize|SetDevice|ResetDevice).*|_handle"
        ),
        ("runtime", "launch", "bench.loops"),
    ),
    # A status becomes an exception in errors.check; operators raise what their rules found, before any status.
    Restricted("the class of a status", re.compile("_CLASSES"), ("errors",)),
)

STATUS_ERRORS = {"AclnnParameterError": ("errors", "ops")}
"""Who may make an error that carries a status; for the classes that are not named here only errors.py."""


class Module(NamedTuple):
    name: str
    """Dotted, below the package: ``native.library``."""
    tree: ast.Module
    is_package: bool = False

    @property
    def unit(self) -> str:
        return self.name.partition(".")[0]

    def within(self, places: tuple[str, ...]) -> bool:
        return any(self.name == place or self.name.startswith(f"{place}.") for place in places)


def modules() -> list[Module]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_package = len(parts) > 1 and parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, ast.parse(path.read_text(encoding="utf-8"), str(path)), is_package))
    return found


def imports(module: Module) -> Iterator[str]:
    """Every imported name in full, wherever it stands: in functions and under TYPE_CHECKING too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = [PACKAGE, *module.name.split(".")]
            if module.name == TOP:
                parts = [PACKAGE, TOP]
            base = parts[: len(parts) - node.level + module.is_package] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{start}.{alias.name}" for alias in node.names)


def words(module: Module) -> Iterator[str]:
    """Identifiers, imported names and whole strings of the code."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    for name in imports(module):
        yield from name.split(".")


def violations(module: Module, units: set[str], status_errors: set[str]) -> Iterator[str]:
    for name in imports(module):
        top, _, rest = name.partition(".")
        if top == PACKAGE:
            unit = rest.partition(".")[0]
            unit = unit if unit in units else TOP
            if unit != module.unit and unit not in MAY_IMPORT.get(module.unit, set()):
                yield f"{module.name} imports {name}: {module.unit} must not import {unit}"
        elif top not in EXTERNAL and top not in sys.stdlib_module_names:
            yield f"{module.name} imports {name}, which is not a dependency of this package"
        elif module.unit == "oracle" and top not in ORACLE_IMPORTS:
            yield f"{module.name} imports {name}: the oracle imports NumPy and ml_dtypes only"
    held = set(words(module))
    for rule in RESTRICTED:
        if not module.within(rule.allowed):
            yield from (f"{module.name} holds {w}: {rule.what}" for w in sorted(held) if rule.pattern.fullmatch(w))
    for node in ast.walk(module.tree):
        made = node.func if isinstance(node, ast.Call) else node.exc if isinstance(node, ast.Raise) else None
        name = made.attr if isinstance(made, ast.Attribute) else made.id if isinstance(made, ast.Name) else ""
        if name in status_errors and not module.within(STATUS_ERRORS.get(name, ("errors",))):
            yield f"{module.name} makes a {name}: only errors.check turns a status into an exception"


@pytest.fixture(scope="module")
def package() -> list[Module]:
    return modules()


def status_errors(package: list[Module]) -> set[str]:
    """AclError and everything below it, read from errors.py."""
    errors = next(module for module in package if module.name == "errors")
    found = {"AclError"}
    for node in errors.tree.body:
        if isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and base.id in found for base in node.bases
        ):
            found.add(node.name)
    return found


def test_every_unit_has_its_place(package: list[Module]) -> None:
    assert {module.unit for module in package} == set(MAY_IMPORT)


def test_no_arrow_goes_up() -> None:
    for unit, allowed in MAY_IMPORT.items():
        reached, todo = set(), allowed - {TOP}
        while todo:
            reached |= todo
            todo = set().union(*(MAY_IMPORT[name] for name in todo)) - reached - {TOP}
        assert unit not in reached, unit


def test_borders(package: list[Module]) -> None:
    errors = status_errors(package)
    assert len(errors) > 5
    assert [v for module in package for v in violations(module, set(MAY_IMPORT), errors)] == []


def test_one_dlopen(package: list[Module]) -> None:
    calls = [
        module.name
        for module in package
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("DLL")
    ]
    assert calls == ["native.library"]


BAD = {
    "an arrow up": ("native.x", "from aclnn_kvcache.session import Session"),
    "an arrow up inside a function": ("runtime.x", "def f():\n    import aclnn_kvcache.launch"),
    "an arrow up by way of the package": ("launch", "from aclnn_kvcache import session"),
    "a relative arrow up": ("native.x", "from ..ops import arguments"),
    "pure code with a native import": ("rules.x", "from aclnn_kvcache.native import library"),
    "pure code with ctypes": ("layout", "import ctypes"),
    "an oracle that uses a table of others": ("oracle.x", "from aclnn_kvcache.dtypes import BY_DTYPE"),
    "an oracle that imports more than arithmetic": ("oracle.x", "import os"),
    "torch": ("ops.x", "import torch"),
    "torch behind the test's back": ("ops.x", "__import__('torch')"),
    "a second dlopen": ("native.abi", "import ctypes\nctypes.CDLL('libc.so.6')"),
    "another way to open": ("runtime.x", "from ctypes import cdll"),
    "ctypes at the top": ("session", "from ctypes import c_void_p"),
    "a raw handle in an operator": ("ops.x", "device.call('aclrtMalloc', size)"),
    "a raw handle in the session": ("session", "self._library.aclCreateTensor()"),
    "a status raised elsewhere": ("launch", "raise AclError('aclInit', 1)"),
    "a status raised through the module": ("runtime.x", "raise errors.DeviceFaultError('aclInit', 1)"),
    "a finding raised below the operators": ("launch", "raise AclnnParameterError('x', 0)"),
}


@pytest.mark.parametrize("name", BAD)
def test_violations_are_caught(name: str, package: list[Module]) -> None:
    where, source = BAD[name]
    bad = Module(where, ast.parse(source))
    assert list(violations(bad, set(MAY_IMPORT), status_errors(package)))
