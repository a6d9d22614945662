# SPDX-License-Identifier: Apache-2.0
"""Keeps each call of a session as a bundle."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import ml_dtypes
import numpy as np

import aclnn_kvcache
from aclnn_kvcache.bundle.capture import Layout, Window, layout_of
from aclnn_kvcache.bundle.manifest import MAX_CONTENTS, Described, Manifest, Outcome, Prototype, Target
from aclnn_kvcache.bundle.outcome import MESSAGE, SUCCESS, outcome_of
from aclnn_kvcache.bundle.writing import UNFINISHED, Contents, write_bundle
from aclnn_kvcache.errors import PHASE_1, ArgumentError, DeviceFaultError, KvCacheError, RecordWarning
from aclnn_kvcache.native.version import cann_version
from aclnn_kvcache.rules.contracts import method
from aclnn_kvcache.rules.rule import Contract
from aclnn_kvcache.runtime.device import Device
from aclnn_kvcache.runtime.stream import Stream
from aclnn_kvcache.runtime.switches import switch

RECORD, RECORD_FAILING = "ACLNN_KVCACHE_RECORD", "ACLNN_KVCACHE_RECORD_FAILING"

Result = TypeVar("Result")


class Draft(NamedTuple):
    """What is known of a call before it is made."""

    call: Described
    layout: Layout
    time: str
    omitted: str
    before: Contents

    @property
    def written(self) -> dict[str, Window]:
        """The storages that the call may change."""
        tensors = (self.layout.tensors[name] for name in self.call.contract.written)
        return {str(tensor.storage): self.layout.windows[str(tensor.storage)] for tensor in tensors if tensor}


class Recorder:
    """Records the calls of one session, one after the other: each is waited for."""

    def __init__(self, device: Device, folder: Path, failing_only: bool) -> None:
        """Raises ArgumentError for a folder that is not there and cannot be made, or cannot be written to."""
        self._device, self._folder, self._failing_only = device, folder, failing_only
        self._lock = threading.RLock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder).cleanup()
        except OSError as error:
            raise ArgumentError(f"record or {RECORD}", "a folder that can be written to", str(error)) from error
        with device.bound():
            soc_name = (device.library.aclrtGetSocName() or b"unknown").decode("utf-8", "replace")
            version = cann_version(device.library)
        self._target = Target(device.library.backend, device.id, soc_name, version, ())

    def record(
        self,
        operator: str,
        attributes: Mapping[str, Any],
        stream: Stream,
        arguments: Mapping[str, Any],
        call: Callable[[], Result],
    ) -> Result:
        """Makes the call of an operator with these arguments, waits for it, and keeps it.

        The result and the errors are its own; what goes wrong with the recording is a RecordWarning. A fault of work
        that was queued before the call is raised after it, unless it fails itself.
        """
        contract = method(operator)
        with self._lock:
            draft = _attempt(lambda: _draft(contract, self._device, arguments, attributes))
            try:
                result = call()
                stream.synchronize()
            except Exception as error:
                outcome = outcome_of(error, contract)
                written = _attempt(lambda: self._write(draft, outcome))
                with suppress(RecordWarning):  # where warnings are errors, the call's own still comes first
                    _warn("failed, and was not recorded", written)
                if isinstance(written, Path) and isinstance(error, KvCacheError):
                    error.attach(bundle=str(written))
                raise
            if not self._failing_only:
                returned = dict(zip(contract.outputs, result, strict=True)) if isinstance(result, tuple) else {}
                made = {n: array for n, array in returned.items() if arguments[n] is None and array is not None}
                _warn("was made, but not recorded", _attempt(lambda: self._write(draft, SUCCESS, made)))
            if isinstance(draft, DeviceFaultError):
                raise draft
            return result

    def _write(self, draft: Draft | Exception, outcome: Outcome, made: Mapping[str, Any] | None = None) -> Path:
        if isinstance(draft, Exception):
            raise draft
        returned = layout_of(self._device, made or {})
        changed = {**draft.written, **returned.windows} if outcome.error is None else {}
        omitted = draft.omitted or _too_large(draft.layout.windows, changed)
        before = {} if omitted else draft.before
        after = {} if omitted else {name: window.read() for name, window in changed.items()}
        prototype = self._prototype(draft.call.contract)
        storages = {**draft.call.storages, **returned.storages}
        manifest = Manifest(
            draft.call._replace(storages=storages, revision=prototype.revision),
            {name: tensor for name, tensor in returned.tensors.items() if tensor},
            omitted,
            outcome,
            draft.time,
            _versions(),
            self._target._replace(libraries=self._device.library.paths),
            prototype,
        )
        return write_bundle(self._folder, manifest, before, after)

    def _prototype(self, contract: Contract) -> Prototype:
        try:
            _, binding = self._device.library.binding(contract.api + PHASE_1)
        except KvCacheError as error:
            return Prototype(None, None, str(error)[:MESSAGE])
        return Prototype(binding.revision, str(binding.prototype), binding.source)


def recorder_of(
    device: Device,
    record: str | os.PathLike[str] | Literal[False] | None,
    failing_only: bool | None,
    environ: Mapping[str, str],
) -> Recorder | None:
    """The recorder of a session; None if nothing asks for one. Arguments that are None leave it to the environment.

    Raises ArgumentError for a folder that cannot be used and for another value than 0 and 1 of the switch.
    """
    if record is False:
        return None
    failing_only = switch("record_failing_only", failing_only, RECORD_FAILING)
    folder = environ.get(RECORD) or None if record is None else record
    if folder is None:
        return None
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder) or "\0" in str(folder):
        raise ArgumentError("record", "the path of a folder, False, or None", repr(folder))
    return Recorder(device, Path(folder).absolute(), failing_only)


def _attempt(step: Callable[[], Result]) -> Result | Exception:
    """What the step returns, or the error that it raises: recording must not fail a call."""
    try:
        return step()
    except Exception as error:
        return error.with_traceback(None)  # that would hold the arrays


def _warn(call: str, outcome: object) -> None:
    if isinstance(outcome, Exception):
        text = f"this call {call}: {outcome or type(outcome).__name__}"
        level, frame = 1, sys._getframe()
        while frame.f_back and frame.f_globals["__name__"].startswith(f"{aclnn_kvcache.__name__}."):
            level, frame = level + 1, frame.f_back  # up to who made the call
        warnings.warn(text, RecordWarning, stacklevel=level)


def _draft(contract: Contract, device: Device, arguments: Mapping[str, Any], attributes: Mapping[str, Any]) -> Draft:
    """Describes the call and copies its contents. Waits for queued work that uses the arrays."""
    layout = layout_of(device, arguments)
    call = Described(contract.name, layout.tensors, attributes, layout.storages)
    draft = Draft(call, layout, datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "", {})
    if omitted := _too_large(layout.windows, draft.written):
        return draft._replace(omitted=omitted)
    return draft._replace(before={name: window.read() for name, window in layout.windows.items()})


def _too_large(*contents: Mapping[str, Window]) -> str:
    """Why the contents are left out; empty if they are not."""
    nbytes = sum(window.storage.nbytes for windows in contents for window in windows.values())
    return f"{nbytes} bytes before and after the call are more than {MAX_CONTENTS}" if nbytes > MAX_CONTENTS else ""


def _versions() -> dict[str, str]:
    return {
        "aclnn_kvcache": aclnn_kvcache.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
    }
