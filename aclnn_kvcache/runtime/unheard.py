# SPDX-License-Identifier: Apache-2.0
"""Failures that nobody can catch: told beside the error that comes first, or to ``sys.unraisablehook``."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from aclnn_kvcache.errors import KvCacheError


def tell_beside(error: BaseException | None, step: Callable[[], object], what: str) -> None:
    """Runs the last step of a ``with`` block, which ``error`` ended, if any.

    A failure of the step is raised where there is no error; else it is a note on that, which stays what it is. Where
    Python shows no note (before 3.11, and of ``sys.exit``), it goes to ``sys.unraisablehook``.
    """
    try:
        step()
    except KvCacheError as failure:
        if error is None:
            raise
        add_note = getattr(error, "add_note", None)
        if add_note is None or isinstance(error, SystemExit):
            tell_aside(failure, what)
        else:
            add_note(f"{what} failed too: {type(failure).__name__}: {failure.report()}")


def tell_aside(failure: BaseException, what: str) -> None:
    """Gives the failure to ``sys.unraisablehook``, which prints it on standard error ("Exception ignored in", what)."""
    forgotten = _Forgotten()
    callback = weakref.ref(forgotten, _Raises(failure.with_traceback(None), what))
    del forgotten  # calls back here; there is no other way to the hook that all versions of Python have
    del callback


class _Forgotten:
    pass


class _Raises:
    def __init__(self, failure: BaseException, what: str) -> None:
        self._failure, self._what = failure, what

    def __call__(self, _: object) -> None:
        raise self._failure

    def __repr__(self) -> str:
        return self._what
