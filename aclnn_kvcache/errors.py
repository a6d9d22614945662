# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package, and ``check``, the only place where a status becomes one."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from aclnn_kvcache.status import advice_on, describe

PHASE_1 = "GetWorkspaceSize"
"""An operator's first function is named like its second, with this behind."""


class KvCacheError(Exception):
    """Base of every error of this package. They pickle, with all their attributes.

    ``bundle`` is the folder of the bundle that the call was recorded in; empty where it was not.
    """

    bundle: str = ""

    def __reduce__(self) -> Any:
        return type(self), self._rebuilt_from(), {**self.__dict__, "args": self.args}

    def _rebuilt_from(self) -> tuple[Any, ...]:
        """The arguments that make this object again."""
        return self.args

    def _lines(self) -> list[str]:
        """The text."""
        return [super().__str__()]

    def notes(self) -> list[str]:
        """What else is known, a note each."""
        if not self.bundle:
            return []
        from shlex import quote  # most processes never need it

        return [f"the call was recorded; to make it again: aclnn-kvcache replay {quote(self.bundle)}"]

    def report(self) -> str:
        """Text and notes."""
        return "\n".join([*self._lines(), *self.notes()])

    def attach(self, **facts: Any) -> None:
        """Sets attributes that were not known where the error was made, and renews the notes that tracebacks show."""
        vars(self).update(facts)
        self.__notes__ = self.notes()


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


class OutOfHostMemory(KvCacheError, MemoryError):
    """The library could not make an object for want of host memory."""


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


class ArgumentFacts(NamedTuple):
    """A tensor of a call, as errors and launch records keep it."""

    name: str
    place: str
    """"host", "device", or "NULL" for a tensor that was not given; then the rest is empty."""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    """In elements, as the operator sees them."""
    contiguous: bool = True

    def __str__(self) -> str:
        if not self.dtype:
            return f"{self.name:<16} {self.place}"
        state = "contiguous" if self.contiguous else "not contiguous"
        return (
            f"{self.name:<16} {self.place:<6} {self.dtype:<13} {list(self.shape)} strides {list(self.strides)} {state}"
        )


class LaunchFacts(NamedTuple):
    """A call that was queued on a stream."""

    number: int
    """Counts the launches on the stream, from 1."""
    operator: str
    arguments: tuple[ArgumentFacts, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.operator} (launch {self.number})"

    def __str__(self) -> str:
        return "\n".join([self.name, *_table(self.arguments, self.attributes)])


def _launches(launches: Sequence[LaunchFacts]) -> Iterator[str]:
    """A table of arguments is shown once; launches repeat them."""
    if launches:
        several = f"launches since the last good synchronise of the stream (the last {len(launches)})"
        yield f"{several if len(launches) > 1 else 'the one launch since the last good synchronise of the stream'}:"
    shown: dict[Described, int] = {}
    for launch in launches:
        first = shown.setdefault((launch.arguments, launch.attributes), launch.number)
        same = first != launch.number and launch.arguments
        yield f"{launch.name}: arguments as in launch {first}" if same else str(launch)


def _table(arguments: Iterable[ArgumentFacts], attributes: Iterable[tuple[str, Any]]) -> list[str]:
    return [*(f"  {row}" for row in arguments), *(f"  {name:<16} {value!r}" for name, value in attributes)]


Described: TypeAlias = "tuple[tuple[ArgumentFacts, ...], tuple[tuple[str, Any], ...]]"
"""Arguments and attributes of a call."""


class Verdict(NamedTuple):
    """What an ambiguous status comes from, judged by evidence."""

    blame: str
    """"arguments", "installation", "device" or "unknown"."""
    headline: str
    """The cause in one sentence."""
    evidence: tuple[str, ...]
    cure: str


class AclError(KvCacheError):
    """A call into CANN answered a status that is not 0.

    The text says what happened, why and what to do, the first line being enough to act on; what else is known hangs on
    the exception as notes (``report`` has both).

    Attributes, empty where unknown: ``api`` (the C function), ``status`` (its number), ``name`` (its C name),
    ``operator`` (C name), ``phase`` (1 sizing, 2 launch), ``arguments`` (a tuple of ArgumentFacts), ``attributes``,
    ``findings`` (the broken rules), ``verdict``, ``launches`` (LaunchFacts of what was queued since the last good
    synchronise, for a late fault), ``library_message`` (what the library said on this thread), ``library`` (path),
    ``cann_version``, ``log`` (where CANN writes its log).
    """

    operator: str = ""
    arguments: tuple[ArgumentFacts, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()
    findings: tuple[Any, ...] = ()
    verdict: Verdict | None = None
    launches: tuple[LaunchFacts, ...] = ()
    library: str = ""
    cann_version: str = ""
    log: str = ""
    detail: str = ""
    """What only the caller knows of this failure, for the text."""

    def __init__(self, api: str, status: int, library_message: str = "") -> None:
        super().__init__()
        self.args = api, status, library_message  # set, not passed: OSError, a base of some, would take them apart
        self.api, self.status, self.name, self.library_message = api, status, describe(status).name, library_message
        if api.startswith("aclnn"):
            self.operator = api.removesuffix(PHASE_1)

    @property
    def phase(self) -> int | None:
        """1 where sizing failed, 2 where the launch did; None for a refusal, a late fault, and what is no operator."""
        if self.findings or not self.api.startswith("aclnn"):
            return None
        return 1 if self.api.endswith(PHASE_1) else 2

    def _lines(self) -> list[str]:
        head = f"{self.api} answered {self.status} {self.name}: {describe(self.status).meaning}"
        if self.detail:
            head = f"{head}; {self.detail}"
        advice = advice_on(self.status)
        if self.verdict:
            lines = [f"{head}. {self.verdict.headline}. What to do: {self.verdict.cure}"]
            lines += [f"  evidence: {fact}" for fact in self.verdict.evidence]
        else:
            lines = [f"{head}. What to do: {advice.action}", f"  usual cause: {advice.causes}"]
        if self.library_message:
            lines += ["  the library says:", *(f"    {line}" for line in self.library_message.splitlines())]
        return lines

    def __str__(self) -> str:
        # Before 3.11 Python does not print notes.
        return "\n".join(self._lines()) if sys.version_info >= (3, 11) else self.report()

    def notes(self) -> list[str]:
        """What else is known, a note each."""
        notes = list(_launches(self.launches))
        if self.arguments and (self.arguments, self.attributes) not in [launch[2:] for launch in self.launches]:
            notes.append("\n".join([f"arguments of {self.operator}:", *_table(self.arguments, self.attributes)]))
        if self.library:
            notes.append(f"library: {self.library}, CANN {self.cann_version or 'unknown'}")
        if self.log:
            notes.append(f"CANN's log: {self.log}")
        return [*notes, *super().notes()]


class AclnnParameterError(AclError, ValueError):
    """An operator's arguments are wrong: found by the checks before any native call, or answered by CANN.

    ``findings`` holds what the checks found (empty where CANN answered); ``status`` is what CANN answers to this call,
    0 where CANN would let it through.
    """

    def __init__(self, api: str, status: int, library_message: str = "", findings: Sequence[Any] = ()) -> None:
        super().__init__(api, status, library_message)
        self.findings = tuple(findings)

    def _lines(self) -> list[str]:
        if not self.findings:
            return super()._lines()
        cann = (
            f"CANN would answer {self.status} {self.name}"
            if self.status
            else "CANN does not check this and would go on"
        )
        lines = [f"{self.api}: {self.findings[0].message}"]
        lines += [f"  also: {finding.message}" for finding in self.findings[1:]]
        lines += [f"  {self.detail}"] if self.detail else []
        return [*lines, f"  {cann}. Nothing was launched and nothing was changed."]


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
    text = _without_stale(message.decode("utf-8", "replace").strip())
    raise next((cls for matches, cls in _CLASSES if matches(status)), AclError)(api, status, text)


_TIME = re.compile(r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d")
_last_read = threading.local()


def _without_stale(text: str) -> str:
    """The message without the one read before it: a thread that has no context gets old text again, behind the new.

    Only where messages carry their time; without it two of one wording are two.
    """
    before: str = getattr(_last_read, "text", "")
    _last_read.text = text
    if before and _TIME.search(before) and text.endswith(before):
        return text[: -len(before)].strip()
    return text
