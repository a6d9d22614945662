# SPDX-License-Identifier: Apache-2.0
"""The only dlopen: loads a set of libraries, tells which backend it is, and binds functions one by one."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from aclnn_kvcache.errors import (
    PHASE_1,
    ArgumentError,
    LibraryConflictError,
    LibraryNotFoundError,
    SymbolNotFoundError,
)
from aclnn_kvcache.native import discovery
from aclnn_kvcache.native.abi import Binding, bind
from aclnn_kvcache.native.mappings import mappings
from aclnn_kvcache.native.prototypes import Prototype, declarations
from aclnn_kvcache.native.revisions import QKV, QKV_ABI, REVISIONS
from aclnn_kvcache.native.version import UNKNOWN, cann_version

SIMULATOR_SYMBOL = "aclsim_version"
"""Only the simulator exports this; it is the one thing that tells it from CANN."""

SOURCE_HINT = (
    "On an Ascend host run 'source <CANN root>/set_env.sh' before starting Python (setting os.environ now is too late "
    'for the loader). Without an NPU ask for backend="simulator".'
)

RELEASE_HINT = "The function came with a later one: install that, and source its set_env.sh before starting Python."

OPERATOR_HINT = (
    "Either this release came before the operator: install one that has it. Or the package that holds the operator is "
    "not installed: install the operator package of the same version, or name a custom one in ASCEND_CUSTOM_OPP_PATH."
)


class Attempt(NamedTuple):
    """One candidate and what came of it."""

    path: str
    reason: str
    result: str

    def __str__(self) -> str:
        return f"{self.path} ({self.reason}): {self.result}"


class _Loaded(NamedTuple):
    path: str
    handle: ctypes.CDLL


class Prepared(NamedTuple):
    """A call whose arguments are C objects already."""

    call: Callable[[], int]
    """Makes it, and returns its status."""
    arguments: list[Any]
    """The C objects, in the order in which the arguments were given; each call takes their values of then."""


class Library:
    """A loaded set of CANN's libraries.

    C functions are attributes: ``library.aclrtMalloc(...)`` binds the symbol at first use, opening operator libraries
    in order until one exports it. Attributes of its own: ``backend`` ("cann" or "simulator"), ``paths`` (the files
    opened so far), ``attempts`` (every candidate tried so far), ``operators`` (the operator libraries of its folder).
    """

    qkv_abi: str | None = None
    """The revision of the fused operator that was stated, if one was."""

    def __init__(self, folder: discovery.Folder, runtime: _Loaded, support: _Loaded, attempts: list[Attempt]) -> None:
        self.backend = "simulator" if hasattr(runtime.handle, SIMULATOR_SYMBOL) else "cann"
        self.attempts = attempts
        self._by_folder = {"acl": [runtime], "aclsim": [runtime], "aclnn": [support], "aclnnop": []}
        self.operators = _operators(folder)
        self._unopened = discovery.operator_libraries(folder, os.environ)[::-1]
        self._bindings: dict[str, tuple[str, Binding]] = {}
        self._untyped: dict[str, Callable[..., int]] = {}
        self._lock = threading.RLock()

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.path for items in self._by_folder.values() for item in items))

    def function(self, name: str) -> Any:
        """The typed C function, called with the arguments of our header in their order, or with those of the revision
        in force where there are several.

        Raises SymbolNotFoundError if the libraries do not export it, AbiMismatchError if the one they export cannot be
        called with these arguments, AttributeError if none of our headers declares it.
        """
        with self._lock:
            prototype = _declared(name)
            function = self._needed(prototype).handle[name]
            if prototype.header.startswith("aclnnop/"):
                if name.endswith(PHASE_1):
                    self.binding(name.removesuffix(PHASE_1))  # what phase 1 makes, only phase 2 can use
                _, binding = self.binding(name)
                _type(function, binding.prototype)
                self.__dict__[name] = function if binding.is_ours else _rearranged(function, binding)
            else:
                _type(function, prototype)
                self.__dict__[name] = function
            return self.__dict__[name]

    def prepare(self, name: str, *arguments: Any) -> Prepared:
        """A call of an operator's function with these arguments, converted once: which is what costs most of a call.

        What is a C object already, or a reference to one, stays that. Raises as ``function`` does, TypeError for what C
        does not take.
        """
        getattr(self, name)  # binds it, or raises
        _, binding = self.binding(name)
        given = list(arguments)
        ordered: list[Any] = []
        for (position,), parameter in zip(binding.passed, binding.prototype.parameters, strict=True):
            if position is not None:
                given[position] = _converted(given[position], parameter.ctype)
            ordered.append(None if position is None else given[position])
        if name not in self._untyped:
            # Without argument types ctypes takes C objects as they are. Once: each such function refers to itself.
            self._untyped[name] = ctypes.CFUNCTYPE(binding.prototype.result)((name, self.handle_of(name)))
        return Prepared(partial(self._untyped[name], *ordered), given)

    def home_of(self, name: str) -> str:
        """Path of the library that exports a function, empty if none does or our headers do not declare it."""
        prototype = declarations().prototypes.get(name)
        with self._lock:
            home = self._home(prototype) if prototype else None
        return home.path if home else ""

    def binding(self, name: str) -> tuple[str, Binding]:
        """Path of the library that exports an operator's function, and the prototype in force. Raises as above."""
        with self._lock:
            if name not in self._bindings:
                prototype = _declared(name)
                path = self._needed(prototype).path
                self._bindings[name] = path, bind(prototype, path, self.qkv_abi)
            return self._bindings[name]

    def handle_of(self, name: str) -> Any:
        """The opened library that exports a function, whose functions have no types yet."""
        return self._needed(_declared(name)).handle

    def exports(self, name: str) -> bool:
        """Whether the libraries have a C function. One that our headers do not declare is looked for in the runtime."""
        prototype = declarations().prototypes.get(name)
        with self._lock:
            if prototype is None:
                return any(hasattr(item.handle, name) for item in self._by_folder["acl"])
            return self._home(prototype) is not None

    def state(self, qkv_abi: str) -> None:
        """Takes a statement of the fused operator's revision; a header that contradicts it is found at the next use."""
        with self._lock:
            self.qkv_abi = qkv_abi
            self._bindings.pop(QKV, None)
            self.__dict__.pop(QKV, None)

    def __getattr__(self, name: str) -> Any:
        return self.function(name)

    def _home(self, prototype: Prototype) -> _Loaded | None:
        layer = prototype.header.partition("/")[0]
        opened = self._by_folder[layer]
        position = 0
        while position < len(opened) or (layer == "aclnnop" and self._open_next_operator_library()):
            if position < len(opened):
                if _exports(opened[position], prototype.name, through_dependencies=layer != "aclnnop"):
                    return opened[position]
                position += 1
        return None

    def _needed(self, prototype: Prototype) -> _Loaded:
        home = self._home(prototype)
        if home is None:
            layer = prototype.header.partition("/")[0]
            tried = ", ".join(item.path for item in self._by_folder[layer]) or "any operator library"
            version = cann_version(self)
            release = "CANN of an unknown version" if version == UNKNOWN else f"CANN {version}"
            cure = OPERATOR_HINT if layer == "aclnnop" else RELEASE_HINT
            raise SymbolNotFoundError(
                f"{prototype.name} is not exported by {tried}: this is {release}. {cure}\n{_listing(self.attempts)}"
            )
        return home

    def _open_next_operator_library(self) -> bool:
        """Tries the next candidate; False when there is none left."""
        if not self._unopened:
            return False
        candidate = self._unopened[-1]
        if candidate.skipped:
            self.attempts.append(Attempt(candidate.path, candidate.reason, f"skipped: {candidate.skipped}"))
        elif operator := _open(candidate.path, candidate.reason, self.attempts):
            self._by_folder["aclnnop"].append(operator)
        self._unopened.pop()  # only now: an interrupt while it was opened must not lose it
        return True


def _exports(library: _Loaded, name: str, *, through_dependencies: bool) -> bool:
    """dlsym also searches what a library depends on; an operator belongs to the file that defines it."""
    if not hasattr(library.handle, name):
        return False
    address = ctypes.cast(library.handle[name], ctypes.c_void_p).value or 0
    return through_dependencies or library.path in (file for start, end, file in mappings() if start <= address < end)


def open_helper(path: str) -> Any:
    """A library of this package's own that was compiled for the moment, such as the loops of a benchmark."""
    return _dlopen(path)


def _dlopen(path: str) -> ctypes.CDLL:
    return ctypes.CDLL(path)


_lock = threading.RLock()
_loaded: dict[str, Library] = {}


def load(
    backend: str = "auto", library_dir: str | os.PathLike[str] | None = None, qkv_abi: str | None = None
) -> Library:
    """Loads the libraries of a backend, once per process.

    ``backend`` is "auto" or "cann" (an installation of CANN; "auto" also takes a simulator that ``library_dir`` or
    ``ACLNN_KVCACHE_LIB_DIR`` names), or "simulator". ``qkv_abi`` states the revision of the fused operator where no
    header tells it, and which of the bundled simulators to take; what was stated before in the process still holds.
    Raises LibraryNotFoundError, or LibraryConflictError if the process holds other libraries of the
    same names, ArgumentError for another statement than an earlier one.
    """
    if not isinstance(backend, str) or backend not in discovery.BACKENDS:
        raise ArgumentError("backend", " or ".join(map(repr, discovery.BACKENDS)), repr(backend))
    if library_dir is not None and not (isinstance(library_dir, (str, os.PathLike)) and os.fspath(library_dir)):
        raise ArgumentError("library_dir", "the path of a folder", repr(library_dir))
    stated = os.environ.get(QKV_ABI) or None if qkv_abi is None else qkv_abi
    if stated is not None and stated not in list(REVISIONS[QKV]):
        raise ArgumentError(f"qkv_abi or {QKV_ABI}", " or ".join(map(repr, REVISIONS[QKV])), repr(stated))
    with _lock:
        before = next((library.qkv_abi for library in _loaded.values() if library.qkv_abi), None)
        if stated is not None and before is not None and stated != before:
            raise ArgumentError("qkv_abi", f"{before!r}, as stated before in this process", repr(stated))
        library = _find(backend, library_dir, stated or before)
        if stated is not None and stated != library.qkv_abi:
            library.state(stated)
        return library


def _find(backend: str, library_dir: str | os.PathLike[str] | None, qkv_abi: str | None) -> Library:
    attempts: list[Attempt] = []
    folders = discovery.folders(backend, library_dir, os.environ, qkv_abi)
    for folder in folders:
        runtime = _open_runtime(folder, attempts)
        if runtime is None:
            continue
        # The first runtime that opens decides: it cannot be unloaded, and another set has the same names.
        library = _loaded.get(runtime.path)
        if library is not None and library.operators != _operators(folder):
            raise LibraryConflictError(
                f"{folder.path} cannot be used: it shares {runtime.path} with the set that this process already holds, "
                f"but has other operators. Start another process for this one."
            )
        library = library or _complete(folder, runtime, attempts)
        if library is None:
            break
        if backend == library.backend or (backend == "auto" and (library.backend == "cann" or folder.exclusive)):
            return _loaded.setdefault(runtime.path, library)
        attempts.append(Attempt(library.paths[0], folder.reason, f"this is {_NAMES[library.backend]}"))
        break
    raise LibraryNotFoundError(_not_found(backend, folders[0], attempts))


_NAMES = {"cann": "CANN, not the simulator", "simulator": "the simulator, not CANN"}


def _open_runtime(folder: discovery.Folder, attempts: list[Attempt]) -> _Loaded | None:
    if folder.skipped:
        attempts.append(Attempt(folder.path or "system loader", folder.reason, f"skipped: {folder.skipped}"))
        return None
    return _first(folder, discovery.RUNTIME, attempts)


def _complete(folder: discovery.Folder, runtime: _Loaded, attempts: list[Attempt]) -> Library | None:
    support = _first(folder, discovery.SUPPORT, attempts)
    return Library(folder, runtime, support, attempts) if support else None


def _operators(folder: discovery.Folder) -> list[str]:
    """The operator libraries of the folder itself, wherever links lead."""
    candidates = discovery.operator_libraries(folder, {}) if folder.path else []
    return [os.path.realpath(candidate.path) for candidate in candidates if os.path.exists(candidate.path)]


def _first(folder: discovery.Folder, names: Iterable[str], attempts: list[Attempt]) -> _Loaded | None:
    paths = (os.path.join(folder.path, name) if folder.path else name for name in names)
    return next((found for path in paths if (found := _open(path, folder.reason, attempts))), None)


def _open(path: str, reason: str, attempts: list[Attempt]) -> _Loaded | None:
    name = os.path.basename(path)
    if os.path.isabs(path):
        if not os.path.exists(path):
            attempts.append(Attempt(path, reason, "no such file"))
            return None
        path = os.path.realpath(path)
        if name != discovery.CUSTOM:  # every custom package has one of that name, and nothing depends on it
            _refuse_second_set(path)
    try:
        handle = _dlopen(path)
    except OSError as error:
        attempts.append(Attempt(path, reason, f"the loader says: {error}"))
        return None
    if path == name:
        path = _mapped(name) or path
    attempts.append(Attempt(path, reason, "loaded"))
    return _Loaded(path, handle)


def _refuse_second_set(path: str) -> None:
    """The loader resolves dependencies by soname: two libraries of one name in a process would call each other."""
    other = _mapped(os.path.basename(path))
    if other is not None and not os.path.samefile(other, path):
        raise LibraryConflictError(
            f"{path} cannot be loaded: this process already holds {other}. Two sets of these libraries, such as CANN "
            f"and the simulator, cannot live in one process; start another process for this one."
        )


def _mapped(name: str) -> str | None:
    """The file of that name that is mapped into this process."""
    return next((file for _, _, file in mappings() if os.path.basename(file) == name and os.path.exists(file)), None)


def _declared(name: str) -> Prototype:
    prototype = declarations().prototypes.get(name)
    if prototype is None:
        raise AttributeError(name)
    return prototype


def _type(function: Any, prototype: Prototype) -> None:
    function.restype = prototype.result
    function.argtypes = [parameter.ctype for parameter in prototype.parameters]


def _converted(value: Any, ctype: Any) -> Any:
    return ctype(value) if value is None or isinstance(value, (bool, int, float, bytes)) else value


def _rearranged(function: Any, binding: Binding) -> Any:
    return lambda *arguments: function(*binding.arrange(arguments))


def _not_found(backend: str, first: discovery.Folder, attempts: list[Attempt]) -> str:
    if first.reason == discovery.BUNDLED:
        head = "The simulator's libraries are not there"
        hint = "Installing builds them where a C compiler is found: install gcc or clang, then reinstall"
    elif first.exclusive:
        head = f"The folder {first.path} holds no libraries of backend {backend!r}"
        if first.skipped:
            head = f"The folder {first.path} is not searched: {first.skipped}"
        elif not os.path.isdir(first.path):
            head = f"There is no folder {first.path} to take the libraries of backend {backend!r} from"
        hint = f"It comes from {first.reason}, and nothing else was searched"
    else:
        head, hint = "No CANN libraries could be loaded", SOURCE_HINT
    return f"{head}. {hint}\n{_listing(attempts)}"


def _listing(attempts: Iterable[Attempt]) -> str:
    return "Tried, in this order:\n" + "\n".join(f"  {attempt}" for attempt in attempts)
