# SPDX-License-Identifier: Apache-2.0
"""ACL in this process: who initialised it, how many sessions use it, and what a fork leaves of it."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

from aclnn_kvcache.errors import ForkedProcessError
from aclnn_kvcache.explain.failure import check_native
from aclnn_kvcache.runtime.unheard import tell_aside

if TYPE_CHECKING:
    from aclnn_kvcache.native.library import Library

ALREADY_INITIALISED = 100002


class Closeable(Protocol):
    def close_at_exit(self) -> None: ...


class Process:
    """The initialisation of ACL through one library set, counted.

    The first ``acquire`` calls aclInit. If that answers 100002 somebody else owns ACL, and nothing here ever finalises
    it; if it answers 0, the last ``release`` gives our reference back.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._users = 0
        self._owner = False
        self._lock = threading.RLock()

    def acquire(self) -> None:
        """Raises ForkedProcessError in a forked child, AclError if ACL cannot be initialised."""
        refuse_after_fork()
        with self._lock:
            if self._users == 0:
                _watch_process()
                status = self.library.aclInit(None)
                self._owner = status == 0
                if status != ALREADY_INITIALISED:
                    check_native(self.library, status, "aclInit")
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._owner:
                self._owner = False
                api = self._finalize_api()
                status = getattr(self.library, api)(*([None] if api == "aclFinalizeReference" else []))
                check_native(self.library, status, api)

    def _finalize_api(self) -> str:
        # aclFinalize ends ACL for everybody, whoever else took a reference since; this one gives back only ours.
        return "aclFinalizeReference" if self.library.exports("aclFinalizeReference") else "aclFinalize"


_processes: dict[int, Process] = {}
_processes_lock = threading.RLock()
_open_at_exit: weakref.WeakSet[Closeable] = weakref.WeakSet()
_watching = False
_forked = False


def process_of(library: Library) -> Process:
    """The one Process of a library set."""
    with _processes_lock:
        return _processes.setdefault(id(library), Process(library))


def close_at_exit(closeable: Closeable) -> None:
    """Has ``close_at_exit`` called before the interpreter ends, unless the object is gone by then."""
    _open_at_exit.add(closeable)


def refuse_after_fork() -> None:
    if _forked:
        raise ForkedProcessError(
            "this process was forked from one that had initialised ACL; device, streams and memory do not survive a "
            'fork. Use multiprocessing with the "spawn" start method, or open the first session after the fork.'
        )


def forked() -> bool:
    return _forked


def _watch_process() -> None:
    global _watching
    if not _watching:
        # What a failure at the end needs. Loaded then, its named tuples, which Python makes by eval, would have Python
        # forget that Ctrl-C ended the program, and with that the exit code.
        import aclnn_kvcache.explain.context  # noqa: F401

        _watching = True
        os.register_at_fork(after_in_child=_mark_forked)
        atexit.register(_close_all)


def _mark_forked() -> None:
    global _forked
    _forked = True


def _close_all() -> None:
    for closeable in list(_open_at_exit):
        try:
            closeable.close_at_exit()
        except Exception as failure:  # nobody is left to handle it, and the exit code is the program's
            tell_aside(failure, "the close of a session at the end of the interpreter")
        except KeyboardInterrupt:
            continue
