# SPDX-License-Identifier: Apache-2.0
"""Streams whose work runs in an order that the test states, and that the checks know nothing of."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from runtime_calls import D2D, Kernels, Runtime

SIZE = 256


class Streams:
    """Two streams and two buffers. What its methods make, ``close`` gives back behind all work."""

    def __init__(self, rt: Runtime) -> None:
        self.rt = rt
        self.kernels = Kernels(rt.sim)
        self._made: list[tuple[str, int]] = []
        self.one, self.two = self.stream(), self.stream()
        self.ids = [rt.out("aclrtStreamGetId", ctypes.c_int32, s, first=False) for s in (self.one, self.two)]
        self.memory, self.other = self.malloc(), self.malloc()

    def malloc(self) -> int:
        return self._filled("aclrtFree", self.rt.malloc(SIZE))

    def malloc_host(self) -> int:
        return self._filled("aclrtFreeHost", self.rt.malloc_host(SIZE))

    def stream(self) -> int:
        return self._keep("aclrtDestroyStream", self.rt.stream())

    def event(self) -> int:
        return self._keep("aclrtDestroyEvent", self.rt.event("aclrtCreateEventExWithFlag", 0x9))

    def plain_event(self) -> int:
        return self._keep("aclrtDestroyEvent", self.rt.event())

    def end(self, thing: int, by: str | None = None) -> None:
        """Gives one thing back now."""
        (entry,) = (entry for entry in self._made if entry[1] == thing)
        self._made.remove(entry)
        self.rt.ok(by or entry[0], thing)

    def close(self) -> None:
        self.synchronize()
        for entry in self._made:
            self.rt.ok(*entry)

    def _keep(self, end: str, thing: int) -> int:
        self._made.append((end, thing))
        return thing

    def _filled(self, end: str, address: int) -> int:
        self.rt.ok("aclrtMemset", address, SIZE, 0, SIZE)
        return self._keep(end, address)

    def fill(self, stream: int | None, offset: int = 0, size: int = SIZE, at: int | None = None) -> None:
        self.rt.ok("aclrtMemsetAsync", (at or self.memory) + offset, size, 1, size, stream)

    def copy(self, stream: int, to: int, origin: int, size: int = SIZE) -> None:
        self.rt.ok("aclrtMemcpyAsync", to, size, origin, size, D2D, stream)

    def block(self, stream: int) -> Callable[[], None]:
        """Holds the stream until the returned function is called; the checks see nothing of it."""
        go = threading.Event()
        assert self.kernels.launch(stream, lambda _: 0 if go.wait(60) else 1) == 0
        return go.set

    def let_pass(self, stream: int) -> None:
        """Waits until the stream has come here; the checks see nothing of it."""
        passed = threading.Event()
        assert self.kernels.launch(stream, lambda _: passed.set() or 0) == 0
        assert passed.wait(60)

    def run(self, first: str, on_one: Callable[[int], None], on_two: Callable[[int], None]) -> None:
        """Queues work on stream one and then on two, and has that of ``first`` run first."""
        if first == "one":
            on_one(self.one)
            self.let_pass(self.one)
            on_two(self.two)
            self.let_pass(self.two)
        else:
            go = self.block(self.one)
            try:
                on_one(self.one)
                on_two(self.two)
                self.let_pass(self.two)
            finally:
                go()
            self.let_pass(self.one)

    def synchronize(self) -> None:
        self.rt.ok("aclrtSynchronizeDevice")
