# SPDX-License-Identifier: Apache-2.0
"""The hard limit of a run: gives the device back and ends the process, even when a native call does not return."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType

from aclnn_kvcache.errors import KvCacheError
from aclnn_kvcache.session import Session

GRACE = 5.0
"""Seconds that waiting calls, which know the limit, have to return by themselves; and that giving back may take."""


class Watchdog:
    """Within ``with``, ends the process with ``exit_code`` if the limit plus the grace passes."""

    def __init__(self, seconds: float, exit_code: int) -> None:
        self._deadline = time.monotonic() + seconds
        self._seconds, self._exit_code = seconds, exit_code
        self._session: Session | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def guard(self, session: Session) -> None:
        """The session whose device is given back when the limit passes."""
        self._session = session

    def remaining(self) -> float:
        """Seconds left; not above 0 when there are none."""
        return self._deadline - time.monotonic()

    def finish(self) -> None:
        self._done.set()

    def _watch(self) -> None:
        if self._done.wait(max(self._deadline - time.monotonic(), 0) + GRACE):
            return
        print(
            f"the run did not end within {self._seconds:g} s and a native call does not return; giving the device back",
            file=sys.stderr,
            flush=True,
        )
        giving_back = threading.Thread(target=self._give_back, daemon=True)
        giving_back.start()
        giving_back.join(GRACE)
        os._exit(self._exit_code)

    def _give_back(self) -> None:
        if self._session is not None:
            with suppress(KvCacheError):
                self._session.abandon()
