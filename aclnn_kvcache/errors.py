# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package, and ``check``, the only place where a status becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aclnn_kvcache.status import ADVICE, describe


class KvCacheError(Exception):
    """Base of every error of this package. They pickle, with all their attributes."""

    def __reduce__(self) -> Any:
        return type(self), self._rebuilt_from(), {**self.__dict__, "args": self.args}

    def _rebuilt_from(self) -> tuple[Any, ...]:
        """The arguments that make this object again."""
        return self.args


class LibraryNotFoundError(KvCacheError, OSError):
    """No library of the wanted backend could be loaded; the text lists every candidate with its result."""


class LibraryConflictError(KvCacheError, OSError):
    """The process already holds other libraries of the same names; two sets cannot live in one process."""


class SymbolNotFoundError(KvCacheError, OSError):
    """The libraries are there but do not export the function: another release of CANN, or no such operator package."""


class AbiMismatchError(KvCacheError):
    """The installed function takes other arguments than this package passes."""


class ClosedError(KvCacheError, ValueError):
    """A session, stream, event or array was used after it was closed."""


class ForkedProcessError(KvCacheError, RuntimeError):
    """ACL was used in a child forked from a process that had initialised it."""


class ExecutorConsumedError(KvCacheError, RuntimeError):
    """Phase 2 was called a second time on one executor."""


class ArgumentError(KvCacheError, ValueError):
    """An argument is of the wrong kind: no array, one of another session, an unknown option, a value out of range."""

    def __init__(self, argument: str, expected: str, got: str, action: str = "") -> None:
        self.argument, self.expected, self.got, self.action = argument, expected, got, action
        super().__init__(f"{argument}: expected {expected}, got {got}" + (f"; {action}" if action else ""))

    def _rebuilt_from(self) -> tuple[Any, ...]:
        return self.argument, self.expected, self.got, self.action


class BundleError(KvCacheError, ValueError):
    """A bundle, or a file that describes a call, is broken, hostile, or lacks what was asked of it.

    Attributes: ``bundle`` (its path), ``field`` (of the manifest, or a file's name), ``expected`` and ``got``.
    """

    def __init__(self, bundle: str, field: str, expected: str, got: str) -> None:
        self.bundle, self.field, self.expected, self.got = bundle, field, expected, got
        place = f"{bundle}: {field}" if field else bundle
        super().__init__(f"{place}: expected {expected}, got {got}")

    def _rebuilt_from(self) -> tuple[Any, ...]:
        return self.bundle, self.field, self.expected, self.got


class RecordWarning(RuntimeWarning):
    """A call could not be recorded. It was made all the same."""


class AclError(KvCacheError):
    """A call into CANN answered a status that is not 0.

    Attributes: ``api`` (the C function), ``status`` (its number), ``name`` (its C name), ``library_message`` (what the
    library said on this thread, or an empty string).
    """

    def __init__(self, api: str, status: int, library_message: str = "") -> None:
        known = describe(status)
        self.api, self.status, self.name, self.library_message = api, status, known.name, library_message
        lines = [f"{api} answered {status} {known.name}: {known.meaning}"]
        if status in ADVICE:
            lines += [f"  usual cause: {ADVICE[status].causes}", f"  what to do: {ADVICE[status].action}"]
        if library_message:
            lines += ["  the library says:", *(f"    {line}" for line in library_message.splitlines())]
        super().__init__("\n".join(lines))

    def add_detail(self, detail: str) -> None:
        """Adds a line to the text: what only the caller knows."""
        self.args = (f"{self}\n  {detail}",)

    def _rebuilt_from(self) -> tuple[Any, ...]:
        return self.api, self.status, self.library_message


class AclnnParameterError(AclError, ValueError):
    """An operator's arguments are wrong: found by the checks before any native call, or answered by CANN.

    ``findings`` holds what the checks found (empty where CANN answered); ``status`` is what CANN answers to this call,
    0 where CANN would let it through.
    """

    def __init__(self, api: str, status: int, library_message: str = "", findings: Sequence[Any] = ()) -> None:
        super().__init__(api, status, library_message)
        self.findings = tuple(findings)
        if self.findings:
            cann = f"CANN would answer {status} {self.name}" if status else "CANN does not check this and would go on"
            lines = [f"{api}: {self.findings[0].message}"]
            lines += [f"  also: {finding.message}" for finding in self.findings[1:]]
            lines += [f"  {cann}. Nothing was launched and nothing was changed."]
            self.args = ("\n".join(lines),)

    def _rebuilt_from(self) -> tuple[Any, ...]:
        return *super()._rebuilt_from(), self.findings


class AclnnInnerError(AclError):
    """An aclnn call failed inside (561xxx): tiling, kernel lookup, installation, or a spent executor."""


class OutOfDeviceMemory(AclError, MemoryError):
    """Device memory is exhausted."""


class SynchronizeTimeoutError(AclError, TimeoutError):
    """Queued work did not end within the time given."""


class DeviceFaultError(AclError):
    """A kernel or copy that was queued earlier failed on the device; reported by the synchronise after it."""


class DeviceUnavailableError(AclError):
    """The device does not exist, is not visible, or cannot be opened."""


class ContextError(AclError):
    """A handle is stale, or belongs to another context or thread."""


_CLASSES: tuple[tuple[Callable[[int], bool], type[AclError]], ...] = (
    (lambda s: 161000 <= s < 162000, AclnnParameterError),
    (lambda s: 561000 <= s < 562000, AclnnInnerError),
    (lambda s: s in (207001, 207018), OutOfDeviceMemory),
    (lambda s: s in (507046, 507047), SynchronizeTimeoutError),
    (lambda s: s in (107001, 207004, 500000, 507033, 100039), DeviceUnavailableError),
    (lambda s: s in (107002, 107003, 107017), ContextError),
    (lambda s: 507011 <= s <= 507057 or s == 507899, DeviceFaultError),
)


def check(status: int, api: str, recent_message: Callable[[], bytes | None] | None = None) -> None:
    """Raises the exception of a status that is not 0.

    ``recent_message`` is ``aclGetRecentErrMsg``; it is called once, on the failing thread, since reading clears it.
    """
    if status == 0:
        return
    message = (recent_message() if recent_message else None) or b""
    text = message.decode("utf-8", "replace").strip()
    raise next((cls for matches, cls in _CLASSES if matches(status)), AclError)(api, status, text)
